package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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

// A proposer that does not work ends a run with exit code 1 and a line that says for what,
// how often, what is kept and how to go on. The folder keeps weights and harness, and the
// same command ends as if the proposer had always worked.
func TestProposerThatFailsAndIsMended(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell")
	}
	works := filepath.Join(t.TempDir(), "works")
	script := filepath.Join(t.TempDir(), "propose")
	text := "#!/bin/sh\n[ -e " + works + " ] || { echo no credit left >&2; exit 3; }\n" +
		"of=$(basename $(dirname $WHALE_OUT)); of=${of%-try-*}\n" + // the same in every try
		"for h in harnesses/h*/harness.go; do { echo \"// $of\"; cat $h; } > $WHALE_OUT/1/harness.go; done\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, condition := range []string{"harness-only", "whale"} {
		if err := os.RemoveAll(works); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		args := append(small(t, "sums"), "--condition", condition, "--cycles", "2", "--iterations", "4", "--candidates", "1", "--repairs", "0",
			"--proposer", "command", "--proposer-command", script)
		broken, mended, calm := append(args, "--out", filepath.Join(dir, "broken")), append(args, "--out", filepath.Join(dir, "broken")), append(args, "--out", filepath.Join(dir, "calm"))
		code, _, errs := whale(t, broken...)
		last := errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:]
		for _, want := range []string{"whale: harness proposer: no candidates in 3 iterations in a row, first for this: ", "exit status 3", "no credit left",
			"the run keeps harness h", filepath.Join(dir, "broken", "harnesses"), "the same command goes on"} {
			if code != exitFailed || !strings.Contains(last, want) {
				t.Errorf("%s: exit code %d, no %q in %s", condition, code, want, errs)
			}
		}
		if code, _, errs := whale(t, "report", filepath.Join(dir, "broken")); code != exitFailed || !strings.Contains(errs, "the run has not ended") {
			t.Errorf("report: exit code %d, %s", code, errs)
		}
		if code, out, _ := whale(t, "archive", filepath.Join(dir, "broken"), "top"); code != exitDone || !strings.Contains(out, "in use") {
			t.Errorf("archive: exit code %d, %s", code, out)
		}
		if err := os.WriteFile(works, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if condition == "harness-only" { // the engine's tests compare the rest
			if code, _, errs := whale(t, mended...); code != exitDone {
				t.Errorf("exit code %d, %s", code, errs)
			}
			continue
		}
		var ends [2]engine.State
		for i, args := range [][]string{mended, calm} {
			if code, _, errs := whale(t, args...); code != exitDone {
				t.Fatalf("%s: exit code %d, %s", condition, code, errs)
			}
			r, err := archive.Read(args[len(args)-1])
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = engine.Fold(r.Records())
		}
		if a, b := ends[0], ends[1]; a.Weights != b.Weights || a.Harness != b.Harness || a.Spent != b.Spent || a.Records != b.Records || len(a.Entries) < 2 {
			t.Errorf("%s: mended %s %s %+v, calm %s %s %+v", condition, a.Weights, a.Harness, a.Spent, b.Weights, b.Harness, b.Spent)
		}
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
