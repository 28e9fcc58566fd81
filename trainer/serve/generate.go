package serve

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/seed-7c27e6b8/whale/engine"
)

// drawn is one sampled id.
type drawn struct {
	id   int32
	logp float32
}

// choice is one completion on its way.
type choice struct {
	ids    []int32
	logps  []float32
	text   string // without stop tokens, cut before a stop text
	reason string // stop or length
	cached int
	err    error
}

// piece is what a stream is told next of one choice.
type piece struct {
	index int
	text  string // may be empty: a token inside a character, or a stop token
	ids   []int32
	logps []float32
	end   *choice // with the last piece
}

// generate draws all choices of a plan. tell, if not nil, gets pieces from one goroutine
// at a time, each choice's in order; an error of its own ends everything. The text of all
// pieces of a choice together is its text.
func (s *Server) generate(ctx context.Context, p plan, tell func(piece) error) ([]choice, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	choices := make([]choice, p.choices)
	var talk sync.Mutex
	var all sync.WaitGroup
	for i := range choices {
		all.Go(func() {
			r := p.request
			r.Seed += uint64(i)
			choices[i] = s.draw(ctx, r, p.stop, func(text string, d []drawn, end *choice) {
				if tell == nil {
					return
				}
				q := piece{index: i, text: text, end: end}
				for _, one := range d {
					q.ids, q.logps = append(q.ids, one.id), append(q.logps, one.logp)
				}
				talk.Lock()
				defer talk.Unlock()
				if err := tell(q); err != nil {
					cancel(err)
				}
			})
			if choices[i].err != nil {
				cancel(choices[i].err)
			}
		})
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return choices, nil
}

// draw makes one choice. The policy must not wait for the reader, so ids pass through a
// buffer without a limit; a completion is bounded by the context.
func (s *Server) draw(ctx context.Context, r engine.Request, stop []string, tell func(string, []drawn, *choice)) choice {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var waiting []drawn
	wake := make(chan struct{}, 1)
	type result struct {
		completion engine.Completion
		err        error
	}
	done := make(chan result, 1)
	go func() {
		c, err := s.model.Policy.Stream(ctx, r, func(id int32, logp float32) {
			mu.Lock()
			waiting = append(waiting, drawn{id, logp})
			mu.Unlock()
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		done <- result{c, err}
	}()
	w := s.newWriter(stop)
	take := func() (stopped bool) {
		mu.Lock()
		fresh := waiting
		waiting = nil
		mu.Unlock()
		for i, d := range fresh {
			text, stopped := w.push(d)
			if stopped {
				tell(text, fresh[i:i+1], nil)
				return true
			}
			tell(text, fresh[i:i+1], nil)
		}
		return false
	}
	for {
		select {
		case <-wake:
			if !take() {
				continue
			}
			cancel()
			<-done
			w.choice.reason = "stop"
		case last := <-done:
			stopped := take()
			switch {
			case stopped:
				w.choice.reason = "stop"
			case last.err != nil:
				w.choice.err = last.err
				return w.choice
			default:
				w.choice.reason = "length"
				if last.completion.Stop == engine.StopEnd {
					w.choice.reason = "stop"
				}
			}
			w.choice.cached = last.completion.Cached
		}
		rest := w.flush()
		end := w.choice
		tell(rest, nil, &end)
		return w.choice
	}
}

// writer turns ids into text, and holds back what may be the beginning of a stop text.
type writer struct {
	choice choice
	stops  []string
	ends   func(int32) bool // stop and other control tokens have no text
	decode interface {
		Push(int32) string
		Flush() string
	}
	held string
	cut  bool // before a stop text
}

func (s *Server) newWriter(stops []string) *writer {
	ends := s.model.Chat.Stops()
	return &writer{stops: stops, decode: s.model.Tokens.Stream(), ends: func(id int32) bool {
		for _, e := range ends {
			if e == id {
				return true
			}
		}
		return s.model.Tokens.Special(id)
	}}
}

// push adds an id and returns the text that is certain by now.
func (w *writer) push(d drawn) (text string, stopped bool) {
	w.choice.ids, w.choice.logps = append(w.choice.ids, d.id), append(w.choice.logps, d.logp)
	if w.ends(d.id) {
		return "", false
	}
	w.held += w.decode.Push(d.id)
	at := -1
	for _, stop := range w.stops {
		if i := strings.Index(w.held, stop); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at >= 0 {
		text, w.held, w.cut = w.held[:at], "", true
		w.choice.text += text
		return text, true
	}
	keep := 0
	for _, stop := range w.stops {
		for n := min(len(stop)-1, len(w.held)); n > keep; n-- {
			if strings.HasSuffix(w.held, stop[:n]) {
				keep = n
			}
		}
	}
	text, w.held = w.held[:len(w.held)-keep], w.held[len(w.held)-keep:]
	w.choice.text += text
	return text, false
}

// flush ends the text.
func (w *writer) flush() string {
	if w.cut {
		return ""
	}
	rest := w.held + w.decode.Flush()
	w.choice.text += rest
	w.held = ""
	return rest
}

var errGone = errors.New("the client left")
