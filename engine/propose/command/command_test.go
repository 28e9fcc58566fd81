package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

const source = "package harness\n\nfunc Run(s *kit.Session) error { return nil }\n"

// archive is a small run folder and the brief that goes with it.
func archive(t *testing.T) engine.Brief {
	t.Helper()
	h := engine.NewHarness(source, engine.Meta{})
	folder := t.TempDir()
	for name, text := range map[string]string{
		"journal.jsonl": "{}\n", "harnesses/" + string(h.ID) + "/harness.go": source,
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return engine.Brief{
		Domain: "lookup", Skill: "advice", Cycle: 2, Iteration: 3, Slots: 2, Folder: folder, Incumbent: h.ID,
		Entries: []engine.Entry{{Harness: h, Accepted: true}},
		Failures: []*engine.Trajectory{{Task: "secret-task-id", Verdict: engine.Verdict{Kind: engine.Unparsed}, Events: []engine.Event{
			{Said: &engine.Turn{Role: "user", Content: "Where was Gervan born?"}},
			{Call: &engine.Call{Text: "<search>Gervan</search>", Prompt: []int32{1, 2}}},
			{Tool: &engine.ToolUse{Name: "search", Args: `{"query":"Gervan"}`, Result: "a passage"}},
		}}},
		Rejected: []engine.Rejection{{Harness: engine.NewHarness("bad", engine.Meta{}), Err: engine.LoadError{Line: 3, Column: 4, Rule: "type", Reason: "no such name"}}},
	}
}

// shell is a proposer that runs a script.
func shell(script string) *Proposer {
	return &Proposer{Argv: []string{"/bin/sh", "-c", script}, Grace: time.Second}
}

func printed(t *testing.T, b engine.Brief, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Folder, desk.Proposals, "cycle-02-iteration-03-try-1", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPropose_TakesWhatThereIs(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   []string // sources
	}{
		{"both slots", `printf one > $WHALE_OUT/1/harness.go; printf two > $WHALE_OUT/2/harness.go`, []string{"one", "two"}},
		{"fewer", `printf two > $WHALE_OUT/2/harness.go`, []string{"two"}},
		{"folders made by the program", `rm -r $WHALE_OUT/*; mkdir $WHALE_OUT/idea; printf x > $WHALE_OUT/idea/harness.go`, []string{"x"}},
		{"another file name", `printf x > $WHALE_OUT/1/candidate.go; printf y > $WHALE_OUT/other.go`, []string{"x", "y"}},
		{"too many", `printf a > $WHALE_OUT/1/harness.go; printf b > $WHALE_OUT/2/harness.go; printf c > $WHALE_OUT/z.go`, []string{"a", "b"}},
		{"the same twice", `printf a > $WHALE_OUT/1/harness.go; printf a > $WHALE_OUT/2/harness.go`, []string{"a"}},
		{"known ones", `cat harnesses/*/harness.go > $WHALE_OUT/1/harness.go; printf bad > $WHALE_OUT/2/harness.go; printf n > $WHALE_OUT/n.go`, []string{"n"}},
		{"a link and an endless file", `ln -s /etc/passwd $WHALE_OUT/1/harness.go; mkfifo $WHALE_OUT/2/harness.go; printf ok > $WHALE_OUT/ok.go`, []string{"ok"}},
		{"a link as folder", `rmdir $WHALE_OUT/1; ln -s $PWD/harnesses $WHALE_OUT/1; printf ok > $WHALE_OUT/2/harness.go`, []string{"ok"}},
		{"not text, too large, empty", `printf '\377' > $WHALE_OUT/1/harness.go; head -c 300000 /dev/zero | tr '\0' x > $WHALE_OUT/2/harness.go; : > $WHALE_OUT/e.go; printf ok > $WHALE_OUT/ok.go`, []string{"ok"}},
		{"a failing program", `printf x > $WHALE_OUT/1/harness.go; exit 3`, []string{"x"}},
		{"slots and folder", `printf "$WHALE_SLOTS" > $WHALE_OUT/1/harness.go; test -f journal.jsonl && printf here > $WHALE_OUT/2/harness.go`, []string{"2", "here"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := archive(t)
			made, err := shell(test.script).Propose(context.Background(), b)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range made {
				got = append(got, h.Source)
				m := h.Meta
				if m.Proposer != Name || m.Cycle != 2 || m.Iteration != 3 || !slices.Equal(m.Parents, []engine.HarnessID{b.Incumbent}) {
					t.Errorf("meta %+v", m)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPropose_Errors(t *testing.T) {
	tests := []struct {
		name    string
		p       *Proposer
		want    error
		mention string
	}{
		{"nothing", shell(`true`), ErrNothing, "wrote no candidate"},
		{"dies", shell(`echo why >&2; kill -9 $$`), ErrExit, "killed"},
		{"says why", shell(`printf 'first\n\033[1mthe disk is full\n\n' >&2; exit 7`), ErrExit, `it said last: "\x1b[1mthe disk is full"`},
		{"says why it wrote nothing", shell(`echo no idea >&2`), ErrNothing, "no idea"},
		{"exit status", shell(`exit 7`), ErrExit, "exit status 7"},
		{"no such program", &Proposer{Argv: []string{"no-such-program-here"}}, ErrStart, "not found"},
		{"no program", &Proposer{}, ErrStart, "no program"},
		{"writes into the archive", shell(`printf x > $WHALE_OUT/1/harness.go; printf y > harnesses/new.go`), ErrOutside, "harnesses/new.go is new"},
		{"changes a candidate", shell(`for f in harnesses/*/harness.go; do echo >> $f; done`), ErrOutside, "changed"},
		{"removes the archive", shell(`rm -r harnesses`), ErrOutside, "is gone"},
		{"shortens the journal", shell(`: > journal.jsonl`), ErrOutside, "journal.jsonl changed"},
		{"removes its own folder", shell(`rm -r $WHALE_OUT`), ErrNothing, "wrote no candidate"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			made, err := test.p.Propose(context.Background(), archive(t))
			if !errors.Is(err, test.want) || len(made) != 0 {
				t.Fatalf("%d candidates, error %v", len(made), err)
			}
			if text := err.Error(); !strings.Contains(text, test.mention) || strings.Contains(text, "\n") {
				t.Errorf("error %q", text)
			}
		})
	}
}

// Ensure that a program that loops is ended with everything it started, and that what it
// had written counts.
func TestPropose_Limit(t *testing.T) {
	b := archive(t)
	p := shell(`sleep 1000 & echo $! > $WHALE_OUT/child; trap '' TERM; printf x > $WHALE_OUT/1/harness.go; while :; do sleep 1000; done`)
	p.Limit, p.Grace = 2*time.Second, 50*time.Millisecond
	made, err := p.Propose(context.Background(), b)
	if err != nil || len(made) != 1 {
		t.Fatalf("%d candidates, error %v", len(made), err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(printed(t, b, "out/child")))
	if err != nil {
		t.Fatal(err)
	}
	for range 100_000 { // the kernel may take a moment
		if !alive(child) {
			break
		}
	}
	if alive(child) {
		t.Errorf("child %d is still alive", child)
	}
	p.Argv[2] = `sleep 1000`
	p.Limit = 50 * time.Millisecond
	_, err = p.Propose(context.Background(), archive(t))
	if !errors.Is(err, ErrTime) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// alive tells whether a process runs; one that ended and waits to be collected does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestPropose_NoFolder(t *testing.T) {
	if _, err := shell(`true`).Propose(context.Background(), engine.Brief{Slots: 1}); !errors.Is(err, ErrStart) {
		t.Errorf("error %v", err)
	}
}

func TestPropose_Stopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := shell(`printf x > $WHALE_OUT/1/harness.go`).Propose(ctx, archive(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Ensure that a child that keeps the output open does not hold up the program's end.
func TestPropose_ChildKeepsOutputOpen(t *testing.T) {
	p := shell(`sleep 1000 & printf x > $WHALE_OUT/1/harness.go`)
	p.Grace = 50 * time.Millisecond
	made, err := p.Propose(context.Background(), archive(t))
	if err != nil || len(made) != 1 {
		t.Errorf("%d candidates, error %v", len(made), err)
	}
}

func TestPropose_Transcript(t *testing.T) {
	b := archive(t)
	p := shell(`echo thinking; echo trouble >&2; printf x > $WHALE_OUT/1/harness.go; yes | head -c 100000`)
	p.MaxPrinted = 1000
	if _, err := p.Propose(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	stdout := printed(t, b, "stdout.txt")
	if !strings.HasPrefix(stdout, "thinking\n") || len(stdout) > 1100 || !strings.Contains(stdout, "dropped") {
		t.Errorf("%d bytes of stdout: %.40q", len(stdout), stdout)
	}
	if stderr := printed(t, b, "stderr.txt"); stderr != "trouble\n" {
		t.Errorf("stderr %q", stderr)
	}
	// A second call keeps the first one's transcript.
	if _, err := p.Propose(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if again := printed(t, b, "stdout.txt"); again != stdout {
		t.Error("the first transcript changed")
	}
}

func TestPropose_Environment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "hidden")
	t.Setenv("KEY_OF_THE_AGENT", "given")
	b := archive(t)
	p := shell(`env; printf x > $WHALE_OUT/1/harness.go`)
	p.Pass = []string{"KEY_OF_THE_AGENT", "PATH", "NOT_SET_ANYWHERE"}
	if _, err := p.Propose(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	stdout := printed(t, b, "stdout.txt")
	if strings.Contains(stdout, "hidden") || strings.Contains(stdout, "NOT_SET") || !strings.Contains(stdout, "KEY_OF_THE_AGENT=given\n") {
		t.Errorf("environment:\n%s", stdout)
	}
}

func TestPropose_Copy(t *testing.T) {
	b := archive(t)
	p := shell(`test ! -e journal.jsonl && rm -r harnesses/*/meta.json; cp harnesses/*/harness.go $WHALE_OUT/1/harness.go; echo >> $WHALE_OUT/1/harness.go`)
	p.Copy = true
	made, err := p.Propose(context.Background(), b)
	if err != nil || len(made) != 1 || made[0].Source != source+"\n" {
		t.Fatalf("%d candidates, error %v", len(made), err)
	}
	if _, err := os.Stat(filepath.Join(b.Folder, "journal.jsonl")); err != nil {
		t.Error(err)
	}
}

func TestMeta(t *testing.T) {
	b := archive(t)
	note := `{"hypothesis":"more\nturns","axis":"stopping","parents":["` + string(b.Incumbent) + `","hmadeup"],"score":1}`
	made, err := shell(`printf x > $WHALE_OUT/1/harness.go; printf '%s' '`+note+`' > $WHALE_OUT/1/meta.json
		printf y > $WHALE_OUT/2/harness.go; printf '{"hypothesis":' > $WHALE_OUT/2/meta.json`).Propose(context.Background(), b)
	if err != nil || len(made) != 2 {
		t.Fatalf("%d candidates, error %v", len(made), err)
	}
	if m := made[0].Meta; m.Hypothesis != "more turns" || m.Axis != "stopping" || !slices.Equal(m.Parents, []engine.HarnessID{b.Incumbent}) {
		t.Errorf("meta %+v", m)
	}
	if m := made[1].Meta; m.Hypothesis != "" || len(m.Parents) != 1 {
		t.Errorf("broken meta %+v", m)
	}
}

// A relative path to a program is one from where whale was started.
func TestFind(t *testing.T) {
	b := archive(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.sh"), []byte("#!/bin/sh\nprintf x > $WHALE_OUT/1/harness.go\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	p := &Proposer{Argv: []string{"./p.sh"}}
	if err := p.Find(); err != nil {
		t.Fatal(err)
	}
	if made, err := p.Propose(context.Background(), b); err != nil || len(made) != 1 {
		t.Errorf("%d candidates, %v", len(made), err)
	}
	for _, name := range []string{"./no.sh", "no-such-program-here"} {
		if err := (&Proposer{Argv: []string{name}}).Find(); err == nil {
			t.Error(name)
		}
	}
}
