// Sandbox compares ways to run one candidate's rollout of four turns, with a regular
// expression and formatted text each, against a model that answers at once: this project's
// sandbox, a fresh Python or Node process per rollout, a WebAssembly instance made from
// scratch, and the interpreter without any isolation. It prints a table in markdown.
//
// The ways take turns, so that a busy machine treats all alike, and the median counts.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

// source is the candidate; the programs in other languages do the same.
const source = kittest.FourTurns

const python = `import json, re, sys
call = re.compile(r"search\((\d+)\)")
messages = [{"role": "user", "content": "q"}]
for turn in range(4):
    print(json.dumps(messages), flush=True)
    text = json.loads(sys.stdin.readline())
    found = call.search(text)
    if not found:
        break
    messages += [{"role": "assistant", "content": text}, {"role": "tool", "content": "turn %d: found %s" % (turn, found[1])}]
`

const node = `const rl = require("readline").createInterface({input: process.stdin});
const call = /search\((\d+)\)/;
const messages = [{role: "user", content: "q"}];
let turn = 0;
const ask = () => process.stdout.write(JSON.stringify(messages) + "\n");
rl.on("line", (line) => {
  const text = JSON.parse(line), found = call.exec(text);
  messages.push({role: "assistant", content: text}, {role: "tool", content: "turn " + turn + ": found " + (found && found[1])});
  if (!found || ++turn === 4) process.exit(0); else ask();
});
ask();
`

// model is the engine's side: a reply per turn, at once.
type model struct{ turns int }

func (m *model) answer(last string) string {
	m.turns++
	return fmt.Sprintf("turn %d answers %q: search(%d)", m.turns, last, m.turns)
}

// Generate implements engine.Host.
func (m *model) Generate(_ context.Context, messages []engine.Message, _ engine.GenerateOptions) ([]engine.Reply, error) {
	text := m.answer(messages[len(messages)-1].Content)
	return []engine.Reply{{Handle: m.turns, Text: text, Stop: engine.StopEnd, Tokens: 7}}, nil
}

// Tool implements engine.Host.
func (m *model) Tool(context.Context, string, string) (string, error) { return "", engine.ErrTool }

// Note implements engine.Host.
func (m *model) Note(context.Context, engine.Note) error { return nil }

// way is one way to run a rollout.
type way struct {
	name     string
	isolated string
	rounds   int // rollouts per turn of this way
	run      func() error
	times    []time.Duration
}

func main() {
	sandbox.WorkerMain()
	turns := flag.Int("turns", 20, "how often each way has its turn")
	flag.Parse()
	if err := compare(*turns); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox comparison:", err)
		os.Exit(1)
	}
}

func compare(turns int) (err error) {
	var ways []*way
	for _, by := range []string{sandbox.Interpret, sandbox.Compile} {
		box, program, err := open(by)
		if err != nil {
			return err
		}
		defer box.Close()
		ways = append(ways, &way{name: "whale, " + by, isolated: "yes, fresh", rounds: 50, run: rollout(program)})
	}
	plain, err := interpreter()
	if err != nil {
		return err
	}
	scratch, err := fromScratch()
	if err != nil {
		return err
	}
	ways = append(ways,
		&way{name: "interpreter in this process", isolated: "none, state stays", rounds: 50, run: plain},
		&way{name: "wazero instance from scratch", isolated: "yes, fresh", rounds: 1, run: scratch})
	for _, p := range []struct{ tool, flag, text string }{{"python3", "-c", python}, {"node", "-e", node}} {
		if path := tool(p.tool); path != "" {
			ways = append(ways, &way{name: "fresh `" + p.tool + "` process", isolated: "the user's rights", rounds: 1, run: process(path, p.flag, p.text)})
		}
	}
	for _, w := range ways {
		for range 3 { // caches
			if err := w.run(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	for range turns {
		for _, w := range ways {
			for range w.rounds {
				began := time.Now()
				if err := w.run(); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				w.times = append(w.times, time.Since(began))
			}
		}
	}
	return report(ways)
}

func report(ways []*way) error {
	fmt.Printf("| 4-turn rollout, one at a time | isolation | median | best | of whale, interpret |\n| --- | --- | --- | --- | --- |\n")
	var base time.Duration
	for n, w := range ways {
		slices.Sort(w.times)
		median := w.times[len(w.times)/2]
		if n == 0 {
			base = median
		}
		fmt.Printf("| %s | %s | %.3f ms | %.3f ms | %.2f |\n", w.name, w.isolated, median.Seconds()*1e3, w.times[0].Seconds()*1e3, float64(median)/float64(base))
	}
	fmt.Printf("\n| many at once, %d cores | in flight per core | rollouts per second, median | best |\n| --- | --- | --- | --- |\n", runtime.NumCPU())
	for _, by := range []string{sandbox.Interpret, sandbox.Compile} {
		for _, sessions := range []int{4, 16} {
			rates, err := throughput(by, sessions)
			if err != nil {
				return err
			}
			slices.Sort(rates)
			fmt.Printf("| whale, %s | %d | %.0f | %.0f |\n", by, sessions, rates[len(rates)/2], rates[len(rates)-1])
		}
	}
	return nil
}

func open(by string) (*sandbox.Sandbox, engine.Program, error) {
	ctx := context.Background()
	box, err := sandbox.Open(ctx, sandbox.Config{Engine: by})
	if err != nil {
		return nil, nil, err
	}
	program, err := box.Load(ctx, engine.NewHarness(source, engine.Meta{}))
	if err != nil {
		return nil, nil, errors.Join(err, box.Close())
	}
	return box, program, nil
}

func rollout(p engine.Program) func() error {
	return func() error {
		m := &model{}
		_, err := p.Run(context.Background(), engine.Start{Domain: "d", Input: "q"}, m)
		if err == nil && m.turns != 4 {
			err = fmt.Errorf("%d turns", m.turns)
		}
		return err
	}
}

// throughput keeps that many sessions per core in flight, five times for two seconds, and gives
// the rollouts per second of each time.
func throughput(by string, sessions int) (rates []float64, err error) {
	box, program, err := open(by)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	run := rollout(program)
	for range 5 {
		var wait sync.WaitGroup
		var mu sync.Mutex
		done, began := 0, time.Now()
		for range sessions * runtime.NumCPU() {
			wait.Go(func() {
				n := 0
				var failed error
				for failed == nil && time.Since(began) < 2*time.Second {
					failed = run()
					n++
				}
				mu.Lock()
				defer mu.Unlock()
				done += n
				err = errors.Join(err, failed)
			})
		}
		wait.Wait()
		rates = append(rates, float64(done)/time.Since(began).Seconds())
	}
	return rates, err
}

// tool finds a program itself, behind wrappers that choose a version.
func tool(name string) string {
	ask := map[string][]string{"python3": {"-c", "import sys; print(sys.executable)"}, "node": {"-p", "process.execPath"}}
	out, err := exec.Command(name, ask[name]...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// process runs a rollout in a fresh process that asks by lines of JSON.
func process(path, flag, text string) func() error {
	return func() (err error) {
		c := exec.Command(path, flag, text)
		in, err := c.StdinPipe()
		if err != nil {
			return err
		}
		out, err := c.StdoutPipe()
		if err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		m := &model{}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var messages []struct{ Content string }
			if err := json.Unmarshal(lines.Bytes(), &messages); err != nil {
				return err
			}
			reply, err := json.Marshal(m.answer(messages[len(messages)-1].Content))
			if err != nil {
				return err
			}
			if _, err := in.Write(append(reply, '\n')); err != nil {
				return err
			}
		}
		if err := c.Wait(); err != nil {
			return err
		}
		if m.turns != 4 {
			return fmt.Errorf("%d turns", m.turns)
		}
		return nil
	}
}
