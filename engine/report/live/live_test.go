package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

// served is a finished small run behind a server.
type served struct {
	*Server
	URL    string
	folder string
}

func serve(t *testing.T) *served {
	t.Helper()
	folder := t.TempDir()
	store, err := archive.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	parts := enginetest.Parts(store)
	live := New(folder, parts.Domain, func(ids []int32) string { return fmt.Sprint(ids) })
	parts.Observer = live
	if _, err := engine.Run(t.Context(), enginetest.Config(), parts); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(live.Handler())
	t.Cleanup(server.Close)
	return &served{live, server.URL, folder}
}

// goOn continues the run with a larger budget.
func (s *served) goOn(t *testing.T) error {
	store, err := archive.Open(s.folder)
	if err != nil {
		return err
	}
	parts := enginetest.Parts(store)
	parts.Observer = s.Server
	config := enginetest.Config()
	config.Cycles++
	_, err = engine.Run(t.Context(), config, parts)
	return errors.Join(err, store.Close())
}

// get returns a page's status and text.
func (s *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

var linkRule = regexp.MustCompile(`href="([^"#]+)`)

// Every link of every page leads somewhere, and no page asks anything of another host.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	s := serve(t)
	seen := map[string]bool{"/": true}
	for queue := []string{"/"}; len(queue) > 0 && len(seen) < 400; queue = queue[1:] {
		status, text := s.get(t, queue[0])
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", queue[0], status, text)
		}
		if strings.Contains(text, "://") && !strings.HasPrefix(queue[0], "/harnesses/") && queue[0] != "/" {
			t.Errorf("%s: names another host", queue[0])
		}
		for _, m := range linkRule.FindAllStringSubmatch(text, -1) {
			path := strings.ReplaceAll(m[1], "&amp;", "&")
			if !seen[path] {
				seen[path] = true
				queue = append(queue, path)
			}
		}
	}
	kinds := map[string]int{}
	for path := range seen {
		kinds[strings.Split(strings.Split(path, "?")[0], "/")[1]]++
	}
	if kinds["harnesses"] == 0 || kinds["rollouts"] < 50 || kinds["metrics"] != 1 {
		t.Errorf("found %v", kinds)
	}
}

func TestListIsFilteredSortedAndPaged(t *testing.T) {
	s := serve(t)
	reader, err := archive.Read(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	all, err := reader.Rollouts(func(*archive.Rollout) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	solved := 0
	for _, x := range all {
		if x.Outcome == engine.Scored && x.Reward > .5 {
			solved++
		}
	}
	for _, c := range []struct {
		query string
		found int
		first string // of the first row; empty = not checked
	}{
		{"", len(all), ""},
		{"?state=solved", solved, `class="state good"`},
		{"?state=nonsense", 0, ""},
		{"?task=no-such-task", 0, ""},
		{"?sort=tokens&down=1", len(all), ""},
		{"?page=999999", len(all), ""},
		{"?page=-3&sort=%3Cscript%3E", len(all), ""},
	} {
		status, text := s.get(t, "/rollouts"+c.query)
		want := fmt.Sprintf("%d of %d rollouts match", c.found, len(all))
		if status != http.StatusOK || !strings.Contains(strings.ReplaceAll(text, ",", ""), want) || !strings.Contains(text, c.first) {
			t.Errorf("%s: %d, want %q", c.query, status, want)
		}
		if strings.Contains(text, "<script>") {
			t.Errorf("%s: text of the query becomes a tag", c.query)
		}
	}
	_, text := s.get(t, "/rollouts?sort=tokens&down=1")
	var most []int
	for _, m := range regexp.MustCompile(`<td class="n">([0-9,]+)</td><td class="n">[0-9,]+</td></tr>`).FindAllStringSubmatch(text, -1) {
		n := 0
		fmt.Sscan(strings.ReplaceAll(m[1], ",", ""), &n)
		most = append(most, n)
	}
	for i := 1; i < len(most); i++ {
		if most[i] > most[i-1] {
			t.Fatalf("not sorted: %v", most)
		}
	}
	if len(most) != min(rowsPerPage, len(all)) {
		t.Errorf("%d rows", len(most))
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/harnesses/none", "/harnesses/..%2f..%2frun.yaml", "/rollouts/none/0", "/rollouts/..%2frun/0",
		"/rollouts/point-00-test/99999", "/rollouts/point-00-test/-1", "/rollouts/point-00-test/x", "/else"} {
		if status, text := s.get(t, path); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	r, err := http.Post(s.URL+"/", "text/plain", nil)
	if err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("post: %v %v", r, err)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	s := serve(t)
	status, text := s.get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatal(status, text)
	}
	line := regexp.MustCompile(`^(# HELP [a-z_]+ .+|# TYPE [a-z_]+ (counter|gauge)|[a-z_]+(\{[a-z]+="[^"]*"\})? [-+0-9.e]+)$`)
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("line %q", l)
		}
	}
	reader, err := archive.Read(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	state := engine.Fold(reader.Records())
	for _, want := range []string{
		fmt.Sprintf("whale_rollouts_total{kind=\"weight\"} %d\n", state.Spent.Weight),
		fmt.Sprintf("whale_tokens_total{kind=\"sampled\"} %d\n", state.Total.Cost.Sampled),
		"whale_stage{stage=\"done\"} 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestEventsTellTheProgress(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	next := func() (e event) {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(text), &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
		t.Fatal("the stream ended:", lines.Err())
		return e
	}
	if e := next(); e.Now != "done" || e.Records == 0 {
		t.Errorf("got %+v", e)
	}
	s.Observe(engine.Progress{Stage: engine.StageWeight, Unit: engine.Unit{Cycle: 2, Index: 1, Of: 3}, Done: 3, Jobs: 12, Mean: .5})
	e := next()
	for e.Done != .25 {
		e = next()
	}
	if !strings.Contains(e.Now, "cycle 2") || !strings.Contains(e.Now, "3 of 12 rollouts") {
		t.Errorf("got %+v", e)
	}
}

// afterFirst does something when the first answer has left.
type afterFirst struct {
	http.ResponseWriter
	do func()
}

// Flush sends what was written.
func (a *afterFirst) Flush() {
	a.ResponseWriter.(http.Flusher).Flush()
	a.do()
}

// probe makes the page send itself when its script has brought it up to date.
const probe = `
new MutationObserver(() => fetch("/probe", {method: "POST", body: document.documentElement.outerHTML}))
  .observe(main, {attributes: true, attributeFilter: ["data-refreshed"]});`

// The page in a real browser: while it is open the run goes on for another cycle, and the
// script brings the bar and what is below it up to date, within the content security policy.
func TestPageInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on PATH: the page was not opened in a browser")
	}
	s := serve(t)
	handler := s.Handler()
	var once sync.Once
	pages := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w = &afterFirst{ResponseWriter: w, do: func() {
				once.Do(func() {
					if err := s.goOn(t); err != nil {
						t.Error(err)
					}
				})
			}}
		case "/probe":
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			pages <- string(text)
			return
		case "/live.js":
			defer io.WriteString(w, probe)
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(),
		"--remote-debugging-port=0", "--enable-logging=stderr", server.URL)
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 10 * time.Second
	var log strings.Builder
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var text string
	select {
	case text = <-pages:
	case <-ctx.Done():
	}
	cancel()
	if err := command.Wait(); text == "" {
		t.Fatalf("the page was never brought up to date: %v\n%s", err, log.String())
	}
	server.CloseClientConnections()
	for _, want := range []string{`role="status">done<`, `<circle class="node`, `data-refreshed="1"`, "<td>3</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, l := range strings.Split(log.String(), "\n") {
		if strings.Contains(l, "CONSOLE") {
			t.Error(l)
		}
	}
}

// A page of a folder without a run, or of one that is gone, says so.
func TestFolderWithoutARun(t *testing.T) {
	folder := t.TempDir()
	server := httptest.NewServer(New(folder, &engine.Domain{}, nil).Handler())
	defer server.Close()
	r, err := http.Get(server.URL)
	if err != nil || r.StatusCode != http.StatusNotFound {
		t.Errorf("%v %v", r, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if r, err = http.Get(server.URL + "/metrics"); err != nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v %v", r, err)
	}
}

// The page of a run of 100,000 rollouts: the list filtered and sorted, the report itself,
// one rollout. The lists are read once, by the request before.
func BenchmarkLargeRun(b *testing.B) {
	folder := b.TempDir()
	store, err := archive.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	parts := enginetest.Parts(store)
	config := enginetest.Config()
	config.Condition, config.Rollouts, config.Steps, config.Samples, config.CurveSamples = "weight-only", 100_000, 100, 64, 0
	if _, err := engine.Run(b.Context(), config, parts); err != nil {
		b.Fatal(err)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	handler := New(folder, parts.Domain, nil).Handler()
	get := func(path string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			b.Fatal(path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	for _, path := range []string{"/rollouts?state=wrong&sort=tokens&down=1", "/rollouts?page=500", "/", "/metrics"} {
		b.Run(strings.ReplaceAll(path, "/", "_"), func(b *testing.B) {
			get(path)
			for b.Loop() {
				get(path)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/1e6, "MB")
		})
	}
}
