package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/cuda/fakecard"
	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/schedule"
	"github.com/seed-7c27e6b8/whale/engine/schedule/sensor"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// Runs on a card that is not there, each in a process of its own, which is this test binary
// once more: package fakecard has the libraries.

// asCommand names the variable under which the test binary is the command.
const asCommand = "WHALE_TEST_AS_COMMAND"

// box is a machine with a fake card.
type box struct {
	t            *testing.T
	dir, kernels string
	env          []string
}

func newBox(t *testing.T, gone ...string) *box {
	t.Helper()
	kernels, err := cuda.SIMTKernels()
	if err != nil {
		t.Skip(err)
	}
	b := &box{t: t, dir: t.TempDir(), kernels: kernels}
	libs := b.path("libs")
	if err := errors.Join(os.Mkdir(libs, 0o755), fakecard.Make(kernels, libs, gone...)); err != nil {
		t.Fatal(err)
	}
	// The compiled guest is the user's, the fake's kernels are not.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	mine := b.path("cache", "whale")
	if err := errors.Join(os.MkdirAll(filepath.Join(cache, "whale", "wasm"), 0o755), os.MkdirAll(mine, 0o755),
		os.Symlink(filepath.Join(cache, "whale", "wasm"), filepath.Join(mine, "wasm"))); err != nil {
		t.Fatal(err)
	}
	text := "domain: sums\ncondition: weight-only\ncycles: 1\nsteps: 2\nprompts: 2\nsamples: 4\nselect_tasks: 1\ntest_tasks: 1\ntest_samples: 1\ncurve_samples: 1\n"
	if err := os.WriteFile(b.path("run.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.env = append(os.Environ(), asCommand+"=1", cuda.LibrariesEnv+"="+libs, "XDG_CACHE_HOME="+b.path("cache"), "FAKE_KERNELS="+kernels)
	return b
}

func (b *box) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// command is `whale run` into a folder of the box.
func (b *box) command(out string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	c := exec.CommandContext(b.t.Context(), os.Args[0], "run", "--config", b.path("run.yaml"), "--device", "cuda", "--no-estimate", "--json", "--out", b.path(out))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	c.Env = append(append(b.env[:len(b.env):len(b.env)], "FAKE_LOG="+b.path(out+".log"), "FAKE_CARD="+b.path(out+".card")), env...)
	return c, &stderr
}

// whale runs the command to its end.
func (b *box) whale(out string, env ...string) (code int, summary engine.Summary, stderr string) {
	b.t.Helper()
	c, text := b.command(out, env...)
	stdout, err := c.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	if err == nil {
		if err := json.Unmarshal(stdout, &summary); err != nil {
			b.t.Fatalf("%v\n%s%s", err, stdout, text)
		}
	}
	return c.ProcessState.ExitCode(), summary, text.String()
}

// held is what the processes on a card hold of it.
func (b *box) held(card string) int64 {
	text, err := os.ReadFile(b.path(card + ".card"))
	if err != nil || len(text) < 8 {
		return 0
	}
	return int64(binary.NativeEndian.Uint64(text))
}

// givenBack fails unless a process let go of the card and left nothing of it held. That of a card
// that works is freed before; of one that is lost, the release of the context frees it.
func (b *box) givenBack(out string, before bool) {
	b.t.Helper()
	log, err := os.ReadFile(b.path(out + ".log"))
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	ended, of := strings.CutPrefix(lines[len(lines)-1], "release with bytes left ")
	if err != nil || !of || before && ended != "0" || b.held(out) != 0 {
		b.t.Errorf("%s: memory of the card was not given back: %v, %s, %d bytes held", out, err, lines[len(lines)-1], b.held(out))
	}
}

// steps counts the steps of a run that are on disk.
func (b *box) steps(out string) int {
	text, err := os.ReadFile(b.path(out, "journal.jsonl"))
	if err != nil {
		b.t.Error(err)
	}
	return strings.Count(string(text), `"kind":"step"`)
}

// last is the last line of stderr, where a command says why it ended.
func last(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	return lines[len(lines)-1]
}

// A run that is interrupted in the middle of a training step, and one whose card is lost in
// one, leave a run that goes on to the weights of one that was left alone, and no
// memory on the card.
func TestRunsThatEndEarlyOnACard(t *testing.T) {
	b := newBox(t)
	code, want, stderr := b.whale("whole")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	b.givenBack("whole", true)
	if !strings.Contains(stderr, "memory of the model: ") || !strings.Contains(stderr, "memory of the card: at most ") ||
		strings.Contains(stderr, "more than a tenth beside the plan") {
		t.Errorf("the plan is not printed and kept to: %s", stderr)
	}
	log, err := os.ReadFile(b.path("whole.log"))
	if err != nil || !strings.Contains(string(log), "graph launch") {
		t.Errorf("no decode step was a graph: %v", err)
	}
	for name, c := range map[string]struct {
		fault string
		code  int
		says  string
	}{
		"interrupted": {"FAKE_INTERRUPT", exitInterrupted, "whale: interrupted; the same command goes on from the last checkpoint"},
		"lost":        {"FAKE_LAUNCH", exitFailed, "lost card 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := *b
			b.t = t
			// The model has four layers, so the sixth backward of attention is in the second step.
			code, _, stderr := b.whale(name, c.fault+"=6", "FAKE_KERNEL=dkey")
			if code != c.code || !strings.Contains(last(stderr), c.says) || !strings.HasPrefix(last(stderr), "whale: ") {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			b.givenBack(name, c.code == exitInterrupted)
			if n := b.steps(name); n == 0 || n > 1 && c.code == exitFailed {
				t.Errorf("%d steps are on disk", n)
			}
			code, got, stderr := b.whale(name)
			if code != exitDone || got.WeightsID != want.WeightsID || got.HarnessID != want.HarnessID {
				t.Errorf("went on to exit code %d, weights %s, harness %s, want %s and %s: %s", code, got.WeightsID, got.HarnessID, want.WeightsID, want.HarnessID, stderr)
			}
			b.givenBack(name, true)
		})
	}
}

// Two runs on one card that has no room for both: the second says so, the first does not notice.
func TestTwoRunsOnOneCard(t *testing.T) {
	b := newBox(t)
	first, err := cuda.Open("cpu", 1) // for the plan of the same model
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	model, err := openModel("nano", "sums", first, trainer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan := model.Memory().Total()
	model.Close()
	shared := []string{"FAKE_CARD=" + b.path("shared.card"), "FAKE_TOTAL=" + strconv.FormatInt(plan*3/2, 10)}
	c, stderr := b.command("first", shared...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for b.held("shared") < plan {
		select {
		case err := <-done:
			t.Fatalf("the first run ended early: %v, %s", err, stderr)
		default:
		}
	}
	code, _, second := b.whale("second", shared...)
	if code != exitFailed || !strings.HasPrefix(second, "whale: device cuda: ") ||
		!strings.Contains(second, "card 0 (Fake card 0) has no room for 0.30 GB more: 0.") || !strings.Contains(second, "another process is on the card: the plan is ") ||
		strings.Count(second, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, second)
	}
	b.givenBack("second", true)
	if err := <-done; err != nil {
		t.Fatalf("the first run: %v, %s", err, stderr)
	}
	if n := b.held("shared"); n != 0 {
		t.Errorf("%d bytes of the card are held by nobody", n)
	}
}

// What a card or its libraries lack is the first line, and no run folder is left.
func TestCardsThatARunRefuses(t *testing.T) {
	b := newBox(t)
	without := newBox(t, "cuGraphLaunch")
	for _, c := range []struct {
		name string
		box  *box
		env  string
		says string
	}{
		{"no bfloat16", b, "FAKE_SM=75", "Fake card 0 is sm_75, which has no bfloat16: sm_80 or newer is needed"},
		{"old NVRTC", b, "FAKE_NVRTC=11010", "NVRTC is 11.1, the kernels need 11.4"},
		{"NVRTC older than the card", b, "FAKE_ARCHS=80", "does not know sm_90: a newer NVRTC is needed"},
		{"old driver", b, "FAKE_VERSION=11020", "the driver is for CUDA 11.2, this program needs 11.4"},
		{"driver without a symbol", without, "", "lacks cuGraphLaunch: it is older than this program needs"},
		{"no driver", b, cuda.LibrariesEnv + "=" + b.dir, "the NVIDIA driver (libcuda) is in none of the usual places"},
		{"full", b, "FAKE_OTHERS=" + strconv.Itoa(1<<30), "card 0 (Fake card 0) is full: not even a context fits; another process is on the card"},
		{"nearly full", b, "FAKE_OTHERS=" + strconv.Itoa(1<<30-100<<20), "of 1.07 GB are free, this process holds 0.00: another process is on the card"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := c.box.whale("refused", c.env)
			if line, rest, _ := strings.Cut(stderr, "\n"); code != exitFailed || rest != "" || !strings.HasPrefix(line, "whale: device cuda: ") || !strings.Contains(line, c.says) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if _, err := os.Stat(c.box.path("refused")); err == nil {
				t.Error("a run folder is left")
			}
		})
	}
}

// What this run holds of its card is its own: a card is short of memory for others' sake only if
// the rest of it is much.
func TestAdmissionKnowsWhatTheRunHolds(t *testing.T) {
	fakecard.Use(t, newBox(t).kernels)
	dev, err := cuda.Open("cuda", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const held, rest = 128 << 20, 32 << 20
	if err := dev.Reserve(held); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		used  float64
		share float64
	}{{held, 1}, {held + rest, .75}} {
		m := &machine{}
		if err := m.holds(dev); err != nil {
			t.Fatal(err)
		}
		a := schedule.New(schedule.Limits{Rollouts: 8})
		m.advised.Store(a)
		m.told(sensor.Sample{Cards: []sensor.Card{{MemoryTotal: sensor.Value(c.used, 0, c.used), MemoryUsed: sensor.Value(c.used, 0, c.used)}}})
		if got := a.Standing().Share; got != c.share {
			t.Errorf("a full card of %.0f bytes, %d of them ours: admission has %v of its limits, want %v", c.used, held, got, c.share)
		}
	}
}
