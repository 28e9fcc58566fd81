package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox"
)

// parrot is a model that repeats the last message; there are no tools.
type parrot struct{}

func (parrot) Generate(_ context.Context, m []engine.Message, _ engine.GenerateOptions) ([]engine.Reply, error) {
	return []engine.Reply{{Handle: 1, Text: m[len(m)-1].Content, Stop: engine.StopEnd, Tokens: 1}}, nil
}

func (parrot) Tool(context.Context, string, string) (string, error) { return "", engine.ErrTool }

func (parrot) Note(_ context.Context, n engine.Note) error {
	if n.Log != "" {
		fmt.Println("harness says:", n.Log)
	}
	return nil
}

const shout = `package harness

import (
	"strings"

	"github.com/seed-7c27e6b8/whale/harnesses/kit"
)

var runs int

func Run(s *kit.Session) error {
	runs++
	reply, err := s.Generate([]kit.Message{{Role: kit.User, Content: s.Task().Input}}, kit.Options{})
	if err != nil {
		return err
	}
	for runs > 1 {
		// Never: each run begins where the source was loaded.
	}
	return s.Log(strings.ToUpper(reply.Text))
}
`

// A harness runs twice and finds nothing of its first run; one that the contract forbids is
// refused with its line; one that does not end is ended.
func Example() {
	ctx := context.Background()
	box, err := sandbox.Open(ctx, sandbox.Config{Workers: 1, Limits: sandbox.Limits{Time: 100 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close()

	program, err := box.Load(ctx, engine.NewHarness(shout, engine.Meta{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		use, err := program.Run(ctx, engine.Start{Input: "hello"}, parrot{})
		fmt.Println(use.Engine, err)
	}

	_, err = box.Load(ctx, engine.NewHarness(strings.Replace(shout, `"strings"`, `"os"`, 1), engine.Meta{}))
	var refused *engine.LoadError
	fmt.Println(errors.As(err, &refused), refused.Line, refused.Rule)

	endless, err := box.Load(ctx, engine.NewHarness(
		"package harness\n\nimport \"github.com/seed-7c27e6b8/whale/harnesses/kit\"\n\nfunc Run(s *kit.Session) error {\n\tfor {\n\t}\n}\n", engine.Meta{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = endless.Run(ctx, engine.Start{}, parrot{})
	var limit *engine.LimitError
	fmt.Println(errors.As(err, &limit) && limit.Kind == engine.LimitTime)

	// Output:
	// harness says: HELLO
	// interpret <nil>
	// harness says: HELLO
	// interpret <nil>
	// true 4 contract
	// true
}
