// Package live serves the page of a run while it works, or of a run folder as it stands:
// the report, every rollout and every harness behind links, and metrics for Prometheus.
//
// It reads the run folder, what is committed there, and is told the progress between two
// commits as the run's observer. It never writes, decides nothing and holds no more of a
// run than the list of its rollouts.
//
// Who may reach the address may read everything, so it belongs on a loopback address.
// Everything a page needs comes from here: it works without a network.
//
// Not covered: access control, TLS, more than one run at an address.
package live

import (
	"bytes"
	"context"
	_ "embed" // the page's script
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/report"
)

//go:embed live.js
var script []byte

// rowsPerPage is how many rollouts one screen of the list has.
const rowsPerPage = 100

// told is how often a stream is told of progress at most.
const told = 250 * time.Millisecond

// Server serves one run folder.
type Server struct {
	folder string
	domain *engine.Domain
	decode func([]int32) string
	tasks  map[engine.TaskID]engine.Task

	mu       sync.Mutex
	progress engine.Progress
	watched  bool          // a run in this process tells its progress
	changed  chan struct{} // closed and replaced with each progress

	reading sync.Mutex // one request reads the folder at a time; holds what is below
	lists   map[string][]archive.Rollout
}

// New serves a run folder. decode gives the text of token ids; nil shows none.
func New(folder string, d *engine.Domain, decode func([]int32) string) *Server {
	s := &Server{folder: folder, domain: d, decode: decode, tasks: map[engine.TaskID]engine.Task{}, changed: make(chan struct{}),
		lists: map[string][]archive.Rollout{}}
	for _, split := range []engine.Split{engine.Train, engine.Select, engine.Test} {
		for _, t := range d.Tasks(split) {
			s.tasks[t.ID] = t
		}
	}
	return s
}

// Observe takes the run's progress.
func (s *Server) Observe(p engine.Progress) {
	p.Finished = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress, s.watched = p, true
	close(s.changed)
	s.changed = make(chan struct{})
}

// Listen serves on an address until the context ends. It answers with the address it is
// bound to, and stops with an error only if it can't listen.
func (s *Server) Listen(ctx context.Context, address string) (net.Addr, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		server.Close() // requests are cut off: the run is over, and what a listener says of it helps nobody
	}()
	go server.Serve(listener) // ends with ErrServerClosed
	return listener.Addr(), nil
}

// Handler answers all paths of the page.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.answer(s.run))
	mux.HandleFunc("GET /rollouts", s.answer(s.rollouts))
	mux.HandleFunc("GET /rollouts/{file}/{index}", s.answer(s.rollout))
	mux.HandleFunc("GET /harnesses/{id}", s.answer(s.harness))
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /live.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Write(script) // the client is gone if this fails
	})
	return mux
}

// errNotFound: the address names nothing of the run.
var errNotFound = errors.New("not found")

// answer makes a page with the run's state as of now, or an error in one line.
func (s *Server) answer(page func(*bytes.Buffer, *http.Request, *archive.Reader) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.reading.Lock()
		defer s.reading.Unlock()
		var b bytes.Buffer
		folder, err := archive.Read(s.folder)
		if err == nil {
			err = page(&b, r, folder)
		}
		if err != nil {
			status := http.StatusInternalServerError
			if errors.Is(err, errNotFound) || errors.Is(err, archive.ErrNoRun) {
				status = http.StatusNotFound
			}
			http.Error(w, err.Error(), status)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		w.Write(b.Bytes()) // the client is gone if this fails
	}
}

// bar is the run's state for the top of a page.
func (s *Server) bar(folder *archive.Reader) report.Bar {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched {
		return report.StatusOf(s.progress)
	}
	if summary, err := folder.Summary(); err == nil && summary != nil {
		return report.Bar{Now: "finished"}
	}
	return report.Bar{Now: fmt.Sprintf("%d units committed", len(folder.Records()))}
}

func (s *Server) run(b *bytes.Buffer, _ *http.Request, folder *archive.Reader) error {
	r, err := report.Read(folder, s.domain)
	if err != nil {
		return err
	}
	r.Config = folder.Manifest().Config
	r.Name, r.Folder, r.Decode = filepath.Base(s.folder), s.folder, s.decode
	r.Summary = summaryOf(folder)
	bar := s.bar(folder)
	bar.At = "run"
	r.Live = &bar
	return report.WriteHTML(b, r)
}

// summaryOf is the run's summary, or as much of it as the journal has; shares that were not
// measured yet are NaN.
func summaryOf(folder *archive.Reader) engine.Summary {
	if s, err := folder.Summary(); err == nil && s != nil {
		return *s
	}
	c := folder.Manifest().Config
	state := engine.Fold(folder.Records())
	out := engine.Summary{Domain: c.Domain, Condition: c.Condition, Seed: c.Seed, Model: c.Model, Device: c.Device,
		Rollouts: state.Spent, WeightsID: state.Weights, HarnessID: state.Harness, Coverage: math.NaN(), Unparsed: math.NaN()}
	if n := len(state.Points); n > 0 {
		out.Cycles = state.Points[n-1].Cycle
	}
	out.Tokens, out.Seconds = state.Total.Cost.Tokens(), state.Total.Seconds()
	out.Estimate = foretold(folder.Folder())
	return out
}

// foretold is the estimate that a run began with; nil where none lies in its folder, or one
// that can't be read: the page says nothing of it then.
func foretold(folder string) *engine.Estimate {
	text, err := os.ReadFile(filepath.Join(folder, "estimate.json"))
	if err != nil {
		return nil
	}
	var seen struct{ Estimate *engine.Estimate }
	if json.Unmarshal(text, &seen) != nil {
		return nil
	}
	return seen.Estimate
}

// rollout is one rollout by file and number.
func (s *Server) rollout(b *bytes.Buffer, r *http.Request, folder *archive.Reader) error {
	file := r.PathValue("file")
	index, err := strconv.Atoi(r.PathValue("index"))
	if err != nil || index < 0 || !committed(folder, file) {
		return fmt.Errorf("rollout %s:%s: %w", file, r.PathValue("index"), errNotFound)
	}
	ts, err := folder.Trajectories(file)
	if err != nil {
		return engine.Fail(engine.AtArchive, file, err)
	}
	if index >= len(ts) {
		return fmt.Errorf("rollout %s:%d: the file has %d: %w", file, index, len(ts), errNotFound)
	}
	t := ts[index]
	step := false
	for _, rec := range folder.Records() {
		step = step || rec.File == file && rec.Kind == engine.StepRecord
	}
	return report.WriteRollout(b, s.bar(folder), report.Transcript{Moment: fmt.Sprintf("%s:%d", file, index), Task: s.tasks[t.Task],
		Trained: step && t.Accepted(), Rollout: t}, s.decode)
}

// committed says whether the journal names a file: nothing else is opened by name.
func committed(folder *archive.Reader, file string) bool {
	for _, rec := range folder.Records() {
		if rec.File == file && file != "" {
			return true
		}
	}
	return false
}

// harness is one harness by id, compared with its first parent.
func (s *Server) harness(b *bytes.Buffer, r *http.Request, folder *archive.Reader) error {
	known := map[engine.HarnessID]engine.Harness{}
	for _, rec := range folder.Records() {
		known[rec.Harness] = engine.Harness{ID: rec.Harness}
		if rec.Search != nil {
			for _, e := range rec.Search.Evaluated {
				if e.Harness.Meta.Axis != "" || known[e.Harness.ID].ID == "" {
					known[e.Harness.ID] = e.Harness
				}
			}
			for _, e := range rec.Search.Rejected {
				known[e.Harness.ID] = e.Harness
			}
		}
	}
	h, ok := known[engine.HarnessID(r.PathValue("id"))]
	if !ok {
		return fmt.Errorf("harness %s: %w", r.PathValue("id"), errNotFound)
	}
	read, err := folder.Harness(h.ID)
	if err != nil {
		return engine.Fail(engine.AtArchive, string(h.ID), err)
	}
	h.Source = read.Source
	if h.Meta.Axis == "" && h.Meta.Hypothesis == "" {
		h.Meta = read.Meta
	}
	var parent engine.Harness
	if len(h.Meta.Parents) > 0 {
		if _, ok := known[h.Meta.Parents[0]]; ok {
			if parent, err = folder.Harness(h.Meta.Parents[0]); err != nil {
				return engine.Fail(engine.AtArchive, string(h.Meta.Parents[0]), err)
			}
		}
	}
	return report.WriteHarness(b, s.bar(folder), h, parent, folder.Records())
}

// event is what a page is told.
type event struct {
	Now     string  `json:"now"`
	Done    float64 `json:"done"`
	Records int     `json:"records"`
}

// events streams the progress until the client leaves or the server ends.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		e := event{}
		if folder, err := archive.Read(s.folder); err == nil {
			bar := s.bar(folder)
			e = event{bar.Now, bar.Done, len(folder.Records())}
		}
		text, err := json.Marshal(e)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil || flush.Flush() != nil {
			return
		}
		wait := time.NewTimer(told)
		select {
		case <-r.Context().Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		again := time.NewTimer(2 * time.Second) // another process may have committed
		select {
		case <-r.Context().Done():
		case <-changed:
		case <-again.C:
		}
		again.Stop()
		if r.Context().Err() != nil {
			return
		}
	}
}
