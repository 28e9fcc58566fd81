// Command whale improves an LLM agent from both sides: it alternates small weight
// updates (online rejection-sampling fine-tuning) with a search for better harness code
// under the new weights, in one process on one machine.
//
// This package is wiring: flags and files become one config struct, the siblings are
// built and handed to package engine. It is the only package that imports them all and
// holds no rule of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/seed-7c27e6b8/whale/bench/math/python"
	"github.com/seed-7c27e6b8/whale/bench/math/starlark"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

// Exit codes, the same for every command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

type commands struct {
	Run      runCommand      `cmd:"" help:"Alternate weight updates and harness search; an existing run folder is resumed."`
	Eval     evalCommand     `cmd:"" help:"Score one harness with one model on one split: mean@k with interval, cost."`
	Harness  harnessCommands `cmd:"" help:"Write, check or try one candidate harness."`
	Archive  archiveCommands `cmd:"" help:"Look into a run: top harnesses, differences, rollouts."`
	Export   exportCommand   `cmd:"" help:"Write a run's rollouts as JSON lines or parquet: ids, mask, log-probs, reward."`
	Convert  convertCommand  `cmd:"" help:"Write a model, or a run's weights, as a folder that other tools load."`
	Profile  profileCommand  `cmd:"" help:"Say what runs cost: tokens and seconds by cycle, phase, rollout and point of accuracy."`
	Replay   replayCommand   `cmd:"" help:"Run one archived rollout again and compare it bit for bit."`
	Report   reportCommand   `cmd:"" help:"Write report.html of runs again and print their results side by side."`
	Serve    serveCommand    `cmd:"" help:"Serve a model, or a run's weights, in the form that OpenAI's clients speak."`
	Bench    benchCommand    `cmd:"" help:"Load and run many candidates; candidates and rollouts per second, time by stage."`
	Pretrain pretrainCommand `cmd:"" help:"Make an embedded nano model again from generated data."`
	Doctor   doctorCommand   `cmd:"" help:"Say what this machine offers and whether the parts work here."`
}

func main() {
	sandbox.WorkerMain()
	starlark.WorkerMain()
	python.WorkerMain()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	var cli commands
	parser, err := kong.New(&cli,
		kong.Name("whale"),
		kong.Description("Alternates weight updates and harness search for an LLM agent, on one machine."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "whale: BUG:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "whale: %v\nRun `whale --help` or `whale <command> --help`.\n", err)
		return exitUsage
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what does not end at the first
	command.BindTo(ctx, (*context.Context)(nil))
	return exitCode(ctx, command.Command(), command.Run())
}

// usageError marks wrong flags or values that only a command itself can see.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode says on stderr how a command ended.
func exitCode(ctx context.Context, command string, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		line := "whale: interrupted"
		if command == "run" {
			line += "; the same command goes on from the last checkpoint"
		}
		fmt.Fprintln(os.Stderr, line)
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "whale:", oneLine(err))
		return exitUsage
	}
	fmt.Fprintln(os.Stderr, "whale:", oneLine(err))
	return exitFailed
}

// oneLine keeps the first line of stderr the whole message; what several say alike is said once.
func oneLine(err error) string {
	return strings.Join(slices.Compact(strings.Split(err.Error(), "\n")), "; ")
}
