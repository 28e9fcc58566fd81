package benchtest_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

const canary = "CANARY5e2b"

// public is all of a domain that a harness, a candidate or a proposer may see at rest.
func public(t *testing.T, d *engine.Domain) string {
	t.Helper()
	text, err := json.Marshal(struct {
		Train, Select, Test []engine.Task
		Tools               []engine.ToolSpec
		Seed, Skill         string
	}{d.Train, d.Select, d.Test, d.Tools, d.Seed, d.Skill})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// everything is the text of all files of a run, unpacked.
func everything(t *testing.T, dir string) string {
	t.Helper()
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	var all strings.Builder
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".zst") {
			data, err = decoder.DecodeAll(data, nil)
		}
		all.WriteString(path)
		all.Write(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A whole run over tasks whose references hold a canary leaves it nowhere: not in a task,
// not in what proposers are given, not in a file of the run. Package searchqa has the
// same test with a corpus.
func TestCanary_run(t *testing.T) {
	for _, name := range []string{"own", "math"} {
		d := written(t, name, canary+"a "+canary+"b 1").domain
		folder := filepath.Join(t.TempDir(), "run")
		store, err := archive.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		proposer := &enginetest.Proposer{}
		parts := enginetest.Parts(store)
		d.Seed = "hint=0 turns=2" // what the fake world can run and change
		parts.Domain, parts.Proposer = d, proposer
		config := enginetest.Config()
		config.Domain = name
		summary, err := engine.Run(t.Context(), config, parts)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		seen := public(t, d) + fmt.Sprintf("%+v %+v", proposer.Briefs, summary) + everything(t, folder)
		if len(proposer.Briefs) == 0 || strings.Count(seen, "What goes with item") < 100 || !strings.Contains(seen, `"verdict"`) {
			t.Errorf("%s: this test does not look at what a proposer sees", name)
		}
		if i := strings.Index(seen, canary); i >= 0 {
			t.Errorf("%s: the canary is in the open: %s", name, seen[max(0, i-200):i+40])
		}
	}
}

// Other references change nothing in public, so nothing there tells of them: no id, no
// order, no split.
func TestCanary_public(t *testing.T) {
	for _, name := range []string{"own", "math"} {
		one, other := public(t, written(t, name, "10 11 12").domain), public(t, written(t, name, "20 31 42 53").domain)
		if one != other {
			t.Errorf("%s: what is public depends on the references", name)
		}
	}
}

// In every domain, a rollout of the seed harness in which the model neither searches nor
// answers holds the reference nowhere. Sums and chess are left out: their references are
// short numbers, or moves from the list that the prompt holds.
func TestCanary_rollout(t *testing.T) {
	list := arenas(t)
	for _, name := range []string{"lookup", "own", "searchqa"} {
		a := list[name]
		for _, task := range a.domain.Test {
			result, err := benchtest.Play(a.domain, task, a.h0, func([]kit.Message) string { return "I can't tell." })
			if err != nil {
				t.Fatal(err)
			}
			seen, err := json.Marshal([]any{task, result.Messages, result.Trajectory})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(seen), a.truth[task.ID]) {
				t.Errorf("%s: %q is in the rollout of %q", name, a.truth[task.ID], task.Input)
			}
		}
	}
}
