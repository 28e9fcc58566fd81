package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/harnesses"
)

// small is a run of one step of eight rollouts and no test beyond two tasks.
func small(t *testing.T, domain string) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "small.yaml")
	text := "cycles: 1\nsteps: 1\nprompts: 2\nsamples: 4\ntest_tasks: 2\ntest_samples: 1\ncurve_samples: 1\nselect_tasks: 2\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"run", "--domain", domain, "--condition", "weight-only", "--config", config, "--no-estimate", "--json"}
}

// A run begins with the harness that it is given, and another one is another run.
func TestRunBeginsWithAGivenHarness(t *testing.T) {
	folder, file := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "harness.go")
	seed, err := harnesses.Source("sums")
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Replace(seed, "package harness", "// Mine.\npackage harness", 1)
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append(small(t, "sums"), "--out", folder)
	if code := run(append(args, "--harness", file)); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	r, err := archive.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := engine.NewHarness(source, engine.Meta{}).ID
	if got := r.Records()[0].Harness; got != want {
		t.Errorf("begins with %s, want %s", got, want)
	}
	if code := run(args); code != exitFailed {
		t.Errorf("without the harness: exit code %d", code)
	}
	if code := run(append(small(t, "sums"), "--out", folder+"2", "--harness", folder)); code != exitFailed {
		t.Errorf("a folder without harness.go: exit code %d", code)
	}
}

// What can't be trained or reached is refused before a run folder is made.
func TestEndpointsThatAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[]}`)
	}))
	defer server.Close()
	leave := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
	defer silent.Close()
	defer close(leave)
	t.Setenv("WHALE_TEST_EMPTY", "")
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"training":   {[]string{"--endpoint", server.URL}, exitUsage, "use --condition harness-only"},
		"no key":     {[]string{"--condition", "harness-only", "--endpoint", server.URL, "--endpoint-key-env", "WHALE_TEST_EMPTY"}, exitUsage, "WHALE_TEST_EMPTY"},
		"no address": {[]string{"--endpoint-model", "m"}, exitUsage, "--endpoint is missing"},
		"no service": {[]string{"--endpoint-timeout", "1s"}, exitUsage, "--endpoint is missing"},
		"no time":    {[]string{"--condition", "harness-only", "--endpoint", server.URL, "--endpoint-timeout", "0s"}, exitUsage, "above 0"},
		"no model":   {[]string{"--condition", "harness-only", "--endpoint", server.URL}, exitFailed, "it has 0 models"},
		"silent": {[]string{"--condition", "harness-only", "--endpoint", silent.URL, "--endpoint-timeout", "20ms"}, exitFailed,
			"endpoint " + silent.URL + ": no whole answer in 20ms; --endpoint-timeout sets"},
	} {
		folder := filepath.Join(t.TempDir(), "run")
		code, _, errs := whale(t, append(append(small(t, "lookup"), "--out", folder), c.args...)...)
		if first, _, _ := strings.Cut(errs, "\n"); code != c.code || !strings.HasPrefix(first, "whale: ") || !strings.Contains(first, c.say) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, errs)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: left a run folder", name)
		}
	}
}
