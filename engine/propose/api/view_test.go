package api

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

func openTestView(t *testing.T) (*view, *desk.Desk, engine.Brief) {
	t.Helper()
	b := run(t)
	d, err := desk.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	v, err := openView(d, b.Slots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.close(); err != nil {
			t.Error(err)
		}
	})
	return v, d, b
}

// What the tools show, and what they refuse. Steps build on each other.
func TestTools(t *testing.T) {
	v, d, b := openTestView(t)
	harness := "harnesses/" + string(b.Incumbent) + "/harness.go"
	// Links that a program could have left.
	for link, to := range map[string]string{filepath.Join(d.Out, "1", "meta.json"): filepath.Join(b.Folder, "journal.jsonl"),
		filepath.Join(b.Folder, "cycles", "link.txt"): "../journal.jsonl"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		name string
		args map[string]any
		want string // in the result
		fail bool
	}{
		{"Read", map[string]any{"file_path": harness}, "1\tpackage harness\n", false},
		{"Read", map[string]any{"file_path": "./" + harness, "offset": 3.0, "limit": 1}, "3\tfunc Run", false},
		{"Read", map[string]any{"file_path": harness, "limit": 1}, "(lines 1 to 1 of 3; go on with offset 2)", false},
		{"Read", map[string]any{"file_path": harness, "offset": 1e30}, "", false},
		{"Read", map[string]any{"file_path": "brief.json"}, "advice", false},
		{"Read", map[string]any{"file_path": "journal.jsonl"}, "no such file among", true},
		{"Read", map[string]any{"file_path": "harnesses/../journal.jsonl"}, "no such file among", true},
		{"Read", map[string]any{"file_path": "../" + filepath.Base(b.Folder) + "/" + harness}, "no such file among", true},
		{"Read", map[string]any{"file_path": "/etc/passwd"}, "no such file among", true},
		{"Read", map[string]any{"file_path": ""}, "no such file among", true},
		{"Read", map[string]any{"file_path": "proposals/cycle-01-iteration-01-try-1/out/1/harness.go"}, "no such file among", true},
		{"Read", map[string]any{"file_path": "cycles/link.txt"}, "no such file among", true},
		{"Read", map[string]any{"file_path": "out/1/meta.json"}, "no such file among", true},
		{"Read", map[string]any{"file_path": "harnesses"}, "folder", true},
		{"Read", map[string]any{"file_path": "cycles/none"}, "no such file or directory", true},
		{"Read", map[string]any{"file_path": "cycles/01/iteration-01/blob.bin"}, "no text", true},
		{"Read", map[string]any{"file_path": 7}, "arguments", true},
		{"Glob", map[string]any{"pattern": "**/*.go"}, harness, false},
		{"Glob", map[string]any{"pattern": "results.jsonl"}, "cycles/01/iteration-01/results.jsonl\n", false},
		{"Glob", map[string]any{"pattern": "journal*"}, "(no file matches)", false},
		{"Glob", map[string]any{"pattern": "[x"}, "(no file matches)", false},
		{"Grep", map[string]any{"pattern": `reward":1`}, "cycles/01/iteration-01/results.jsonl:2:", false},
		{"Grep", map[string]any{"pattern": "Run", "path": "harnesses"}, harness + ":3:", false},
		{"Grep", map[string]any{"pattern": "Run", "path": "cycles/"}, "(no line matches)", false},
		{"Grep", map[string]any{"pattern": "secret of the test"}, "(no line matches)", false},
		{"Grep", map[string]any{"pattern": "("}, "missing", true},
		{"Write", map[string]any{"file_path": "out/1/harness.go", "content": "a b a"}, "wrote 5 bytes", false},
		{"Write", map[string]any{"file_path": "out/1/harness.go"}, "content is missing", true},
		{"Write", map[string]any{"file_path": "out/01/harness.go", "content": "x"}, "slots are 1 to 2", true},
		{"Write", map[string]any{"file_path": "out/3/harness.go", "content": "x"}, "slots are 1 to 2", true},
		{"Write", map[string]any{"file_path": "out/1/other.go", "content": "x"}, "outside", true},
		{"Write", map[string]any{"file_path": "brief.json", "content": "x"}, "outside", true},
		{"Write", map[string]any{"file_path": harness, "content": "x"}, "outside", true},
		{"Write", map[string]any{"file_path": "out/1/meta.json", "content": "x"}, "", true},
		{"Write", map[string]any{"file_path": "out/2/harness.go", "content": strings.Repeat("x", desk.MaxSource+1)}, "too many", true},
		{"Edit", map[string]any{"file_path": "out/1/harness.go", "old_string": "a", "new_string": "c"}, "2 times", true},
		{"Edit", map[string]any{"file_path": "out/1/harness.go", "old_string": "b", "new_string": "d"}, "wrote 5", false},
		{"Edit", map[string]any{"file_path": "out/1/harness.go", "old_string": "a", "new_string": "c", "replace_all": true}, "wrote 5", false},
		{"Edit", map[string]any{"file_path": "out/1/harness.go", "old_string": "", "new_string": "c"}, "not in", true},
		{"Edit", map[string]any{"file_path": harness, "old_string": "Run", "new_string": "c"}, "outside", true},
		{"Read", map[string]any{"file_path": "out/1/harness.go"}, "1\tc d c\n", false},
		{"Bash", map[string]any{}, "no tool", true},
	} {
		r, err := v.use(context.Background(), call(c.name, c.args))
		if err != nil || r.Failed != c.fail || !strings.Contains(r.Text, c.want) || strings.Contains(r.Text, b.Folder) {
			t.Errorf("%d %s %v: failed %v, %q, %v", i, c.name, c.args, r.Failed, r.Text, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.Folder, "journal.jsonl")); err != nil || string(text) != "a secret of the test split\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Long files and many matches are cut, and say so.
func TestTools_bounds(t *testing.T) {
	v, _, b := openTestView(t)
	if err := os.WriteFile(filepath.Join(b.Folder, "cycles", "long.txt"), []byte(strings.Repeat(strings.Repeat("x", 3000)+"\n", 2000)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Call{call("Read", map[string]any{"file_path": "cycles/long.txt"}), call("Grep", map[string]any{"pattern": "x"})} {
		r, err := v.use(context.Background(), c)
		if err != nil || r.Failed || len(r.Text) > maxAnswer+2*maxLine || !strings.Contains(r.Text, "(cut)") ||
			!strings.Contains(r.Text, "go on with offset") && !strings.Contains(r.Text, "narrow the search") {
			t.Errorf("%d bytes, %v, ... %q", len(r.Text), err, r.Text[max(0, len(r.Text)-100):])
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := v.use(ctx, call("Grep", map[string]any{"pattern": "x"})); err == nil {
		t.Error("goes on after the end")
	}
}

// No call leaves the slots, whatever its arguments.
func FuzzTools(f *testing.F) {
	f.Add("Write", `{"file_path":"out/1/../../x","content":"y"}`)
	f.Add("Edit", `{"file_path":"out/1/harness.go","old_string":"a","new_string":"b"}`)
	f.Add("Glob", `{"pattern":"**/["}`)
	f.Fuzz(func(t *testing.T, name, args string) {
		if len(args) > 2000 {
			return
		}
		v, d, b := openTestView(t)
		if _, err := v.use(context.Background(), Call{Name: name, Args: args}); err != nil {
			t.Error(err)
		}
		want := map[string]bool{}
		err := filepath.WalkDir(b.Folder, func(p string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				want[p] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for p := range want {
			if strings.HasPrefix(p, d.Out) && !strings.HasSuffix(p, "/harness.go") && !strings.HasSuffix(p, "/meta.json") {
				t.Error(p)
			}
		}
		if n := len(want); n > 8+2+4 {
			t.Errorf("%d files", n)
		}
	})
}
