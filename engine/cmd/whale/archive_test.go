package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// played is the folder of a small run without a real model or sandbox.
func played(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	a, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	config := enginetest.Config()
	config.Iterations = 2
	if _, err := engine.Run(t.Context(), config, enginetest.Parts(a)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// whale runs the command and returns its exit code and what it printed.
func whale(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var texts [2]bytes.Buffer
	done := make(chan error, 2)
	var ends []*os.File
	for i, std := range []**os.File{&os.Stdout, &os.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		was := *std
		defer func() { *std = was }()
		*std = w
		ends = append(ends, w)
		go func() {
			_, err := io.Copy(&texts[i], r)
			done <- err
		}()
	}
	code = run(args)
	for _, w := range ends {
		w.Close()
	}
	for range ends {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	return code, texts[0].String(), texts[1].String()
}

// decoded reads one JSON object a line.
func decoded[T any](t *testing.T, text string) []T {
	t.Helper()
	var list []T
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var x T
		if err := d.Decode(&x); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		list = append(list, x)
	}
	return list
}

// The questions that a run folder answers, and what is refused with which exit code.
func TestArchiveCommands(t *testing.T) {
	dir := played(t)
	ask := func(args ...string) string {
		t.Helper()
		code, out, errs := whale(t, append([]string{"archive", dir}, args...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%v: exit %d, %s", args, code, errs)
		}
		return out
	}
	top := decoded[topRow](t, ask("top", "--json", "-n", "0"))
	if len(top) < 3 || top[0].Mean < top[1].Mean || !top[0].InUse {
		t.Fatalf("%+v", top)
	}
	if text := ask("top", "-n", "2"); strings.Count(text, "\n") != 3 || !strings.Contains(text, "in use") {
		t.Errorf("%s", text)
	}
	diff := ask("diff", string(top[0].Harness))
	if want := "+hint="; !strings.Contains(diff, want) || !strings.Contains(diff, "--- "+string(top[0].Parents[0])) {
		t.Errorf("no %q in %s", want, diff)
	}
	all := decoded[archive.Rollout](t, ask("rollouts", "--json", "-n", "0"))
	wrong := decoded[archive.Rollout](t, ask("rollouts", "--json", "-n", "0", "--verdict", "unparsed", "--phase", "train", "--sort", "tokens", "--down"))
	if len(all) < 300 || len(wrong) == 0 || len(wrong) >= len(all) {
		t.Errorf("%d of %d", len(wrong), len(all))
	}
	for i, x := range wrong {
		if x.Verdict != engine.Unparsed || !strings.HasPrefix(x.Phase, "train") || i > 0 && x.Sampled > wrong[i-1].Sampled {
			t.Errorf("%d: %+v", i, x)
		}
	}
	long := decoded[archive.Rollout](t, ask("rollouts", "--json", "-n", "0", "--min-tokens", "5", "--max-turns", "1", "--harness", string(top[1].Harness)))
	for _, x := range long {
		if x.Sampled < 5 || x.Turns > 1 || x.Harness != top[1].Harness {
			t.Errorf("%+v", x)
		}
	}
	if text := ask("rollouts", "-n", "1", "--show"); !strings.Contains(text, "[user] square") || !strings.HasSuffix(text, "rollouts that match\n") {
		t.Errorf("%s", text)
	}
	for _, c := range []struct {
		code int
		say  string
		args []string
	}{
		{1, "not a run folder", []string{"archive", t.TempDir(), "top"}},
		{2, "harness x: names 0 harnesses", []string{"archive", dir, "diff", "x"}},
		{2, "names", []string{"archive", dir, "diff", "h"}},
		{2, "must be one of", []string{"archive", dir, "rollouts", "--outcome", "good"}},
		{2, "is not FILE:INDEX", []string{"replay", dir, "point-00-test"}},
		{2, "is no unit of this run", []string{"replay", dir, "point-99-test:0"}},
		{2, "the file has rollouts 0 to", []string{"replay", dir, "point-00-test:999"}},
		{1, "not a run folder", []string{"profile", t.TempDir()}},
	} {
		code, _, errs := whale(t, c.args...)
		if first, _, _ := strings.Cut(errs, "\n"); code != c.code || !strings.Contains(first, c.say) {
			t.Errorf("%v: exit %d, %s", c.args, code, errs)
		}
	}
}

// What profile prints and writes adds up to the run's summary.
func TestProfileCommand(t *testing.T) {
	dir := played(t)
	r, err := archive.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Summary()
	if err != nil {
		t.Fatal(err)
	}
	pprof, trace := filepath.Join(t.TempDir(), "p"), filepath.Join(t.TempDir(), "t")
	code, out, errs := whale(t, "profile", dir, "--json", "--pprof", pprof, "--trace", trace)
	if code != 0 {
		t.Fatal(errs)
	}
	p := decoded[profileJSON](t, out)[0]
	sampled, rollouts := 0, 0
	for _, part := range p.Parts {
		sampled += part.Spending.Cost.Sampled
		rollouts += part.Rollouts
	}
	if sampled != s.Tokens.Sampled || rollouts != s.Rollouts.Weight+s.Rollouts.Harness+s.Rollouts.Test || p.Total.Spending.Wall != s.Seconds.Total {
		t.Errorf("%d tokens, %d rollouts, %+v", sampled, rollouts, s)
	}
	f, err := os.Open(pprof)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := profile.Parse(f); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(trace); err != nil || !json.Valid(text) {
		t.Errorf("trace: %v", err)
	}
	each := filepath.Join(t.TempDir(), "each")
	if code, _, errs := whale(t, "profile", dir, "--rollouts", each); code != 0 {
		t.Fatal(errs)
	}
	text, err := os.ReadFile(each)
	if err != nil {
		t.Fatal(err)
	}
	all := decoded[ledger.Rollout](t, string(text))
	for _, one := range all {
		sampled -= one.Cost.Sampled
	}
	if sampled != 0 || len(all) != rollouts {
		t.Errorf("%d rollouts of %d, tokens are off by %d", len(all), rollouts, -sampled)
	}
	_, both, _ := whale(t, "profile", dir, dir) // a row in each of four tables, one more where joules are known
	if n := strings.Count(both, "cycle 1 weight"); n != 8 && n != 10 || !strings.Contains(both, "rollouts a point") {
		t.Errorf("%s", both)
	}
	if code, _, errs := whale(t, "profile", dir, "--pprof", filepath.Join(dir, "no", "p")); code != 1 || !strings.HasPrefix(errs, "whale: archive ") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
