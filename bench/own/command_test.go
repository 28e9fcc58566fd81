package own

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7c27e6b8/whale/bench/benchtest"
	"github.com/seed-7c27e6b8/whale/engine"
	h0 "github.com/seed-7c27e6b8/whale/harnesses/own"
)

const canary = "CANARY-91ba"

// behave is a verifier that has its ways. It does not return.
func behave(how string, in *bufio.Reader) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var c struct {
			Reference any
			Text      string
		}
		if err := json.Unmarshal(line, &c); err != nil {
			os.Exit(9)
		}
		kind := "different"
		if c.Text == fmt.Sprint(c.Reference) {
			kind = "equal"
		}
		verdict := fmt.Sprintf(`{"kind":"%s"}`, kind)
		fmt.Fprintln(os.Stderr, "the reference is", c.Reference)
		switch how {
		case "honest":
			fmt.Println(verdict)
		case "pid":
			fmt.Printf(`{"kind":"different","answer":"%d"}`+"\n", os.Getpid())
		case "one":
			fmt.Println(verdict)
			os.Exit(0)
		case "no newline":
			fmt.Print(verdict)
			os.Exit(0)
		case "then fails":
			fmt.Println(verdict)
			os.Exit(3)
		case "fails":
			os.Exit(3)
		case "leaves":
			os.Exit(0)
		case "stuck":
			forever()
		case "stuck with a child":
			child := exec.Command(os.Args[0], "verifier", "stuck")
			child.Stdout, child.Stderr = os.Stdout, os.Stderr
			if err := child.Start(); err != nil {
				os.Exit(8)
			}
			forever()
		case "twice":
			fmt.Println(verdict + "\n" + `{"kind":"equal"}`)
		case "gossip":
			fmt.Printf(`{"kind":"different","answer":"you should have said %v"}`+"\n", c.Reference)
		case "chatty":
			fmt.Println("loading "+canary, verdict)
		case "flood":
			fmt.Println(strings.Repeat("x", 2*maxVerdict))
		case "too much":
			fmt.Println(`{"kind":"equal","reward":1.5}`)
		case "half":
			fmt.Println(`{"kind":"different","reward":0.5}`)
		case "unknown":
			fmt.Println(`{"kind":"` + canary + `"}`)
		case "unread but right":
			fmt.Println(`{"kind":"unparsed","reward":1}`)
		}
	}
}

// forever waits for a pipe that nobody writes to.
func forever() {
	r, w, err := os.Pipe()
	if err == nil {
		_, err = r.Read(make([]byte, 1))
	}
	fmt.Fprintln(os.Stderr, err, w)
	os.Exit(7)
}

// with is a domain of one task, right when the reply is the canary, judged by a command.
func with(t testing.TB, how, settings string) (*engine.Domain, engine.Task) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "x.yaml"), fmt.Sprintf("verifier: [%q, verifier, %q]\n%s", self, how, settings))
	d, _ := open(t, put(t, filepath.Join(dir, "x.jsonl"), `{"input":"q","answer":"`+canary+`","split":"test"}`), Options{})
	return d, d.Test[0]
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		how, settings string
		kind          engine.VerdictKind
		reward        float64
		fault         error // of the host, and no verdict
	}{
		{"honest", "", engine.Equal, 1, nil},
		{"honest", "each: true", engine.Equal, 1, nil},
		{"one", "", engine.Equal, 1, nil},
		{"no newline", "each: true", engine.Equal, 1, nil},
		{"half", "", engine.Different, .5, nil},
		{"then fails", "each: true", "", 0, ErrEnded},
		{"fails", "", "", 0, ErrEnded},
		{"fails", "each: true", "", 0, ErrEnded},
		{"leaves", "", "", 0, ErrEnded},
		{"leaves", "each: true", "", 0, ErrEnded},
		{"stuck", "seconds: 0.2", "", 0, ErrTime},
		{"stuck", "seconds: 0.2\neach: true", "", 0, ErrTime},
		{"stuck with a child", "seconds: 0.2", "", 0, ErrTime},
		{"chatty", "", "", 0, ErrVerdict},
		{"flood", "", "", 0, ErrVerdict},
		{"too much", "", "", 0, ErrVerdict},
		{"unknown", "", "", 0, ErrVerdict},
		{"unread but right", "", "", 0, ErrVerdict},
	} {
		t.Run(c.how+" "+c.settings, func(t *testing.T) {
			d, task := with(t, c.how, c.settings)
			for range 2 { // a fault must not spoil what comes after it
				result, err := benchtest.Play(d, task, h0.Run, says(canary))
				var f *engine.Failure
				switch {
				case c.fault == nil && (err != nil || result.Verdict.Kind != c.kind || result.Verdict.Reward != c.reward):
					t.Fatalf("%+v %v", result.Verdict, err)
				case c.fault == nil:
				case !errors.Is(err, c.fault) || !errors.As(err, &f) || f.Boundary != engine.AtVerifier:
					t.Fatalf("%v, want %v at the verifier", err, c.fault)
				case engine.Classify(err) != engine.Infra:
					t.Fatalf("%v counts as %s", err, engine.Classify(err))
				case strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "\n"):
					t.Fatalf("the error tells the reference or is no line: %v", err)
				}
			}
		})
	}
}

// A verifier that answers twice is a step ahead of the next question; its second answer
// must not become that question's verdict.
func TestCommand_outOfStep(t *testing.T) {
	d, task := with(t, "twice", "processes: 1")
	for range 5 {
		if v := judge(t, d, task, "wrong"); v.Kind != engine.Different {
			t.Fatalf("%+v", v)
		}
	}
}

// What a verifier says it has read is in records that proposers see.
func TestCommand_gossip(t *testing.T) {
	d, task := with(t, "gossip", "")
	if v := judge(t, d, task, "<answer>Etna</answer>"); v.Answer != "etna" {
		t.Errorf("the verdict tells %q", v.Answer)
	}
	if v := judge(t, d, task, "is it "+canary+"?"); !strings.Contains(v.Answer, canary) {
		t.Errorf("what the model wrote itself is no secret: %q", v.Answer)
	}
}

// Processes are started once and shared, unless each verdict gets its own.
func TestCommand_pool(t *testing.T) {
	for settings, most := range map[string]int{"processes: 3": 3, "processes: 3\neach: true": 12} {
		d, task := with(t, "pid", settings)
		var mu sync.Mutex
		var wg sync.WaitGroup
		pids := map[string]bool{}
		for range 12 {
			wg.Go(func() {
				result, err := benchtest.Play(d, task, h0.Run, says(strings.Repeat("a", 1<<18)))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				pids[result.Verdict.Answer] = true
			})
		}
		wg.Wait()
		if len(pids) > most || most == 12 && len(pids) < 12 {
			t.Errorf("%s: %d processes for 12 verdicts", settings, len(pids))
		}
	}
}

func TestCommand_missing(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "own.yaml"), "verifier: [./no-such-command]")
	put(t, filepath.Join(dir, "tasks.jsonl"), `{"input":"q","answer":{"any":"shape"},"split":"test"}`)
	d, _ := open(t, dir, Options{})
	if _, err := benchtest.Play(d, d.Test[0], h0.Run, says("x")); !errors.Is(err, ErrStart) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
