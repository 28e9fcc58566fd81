package sandbox

import (
	"context"
	"errors"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// sentinels are the errors that pass the wall in both directions.
var sentinels = []struct {
	status abi.Status
	err    error
}{{abi.Budget, engine.ErrBudget}, {abi.BadTool, engine.ErrTool}, {abi.BadContext, engine.ErrContext}}

func encodeStart(s engine.Start) []byte {
	out := abi.Start{Domain: s.Domain, Input: s.Input, Tokens: s.Budget.Tokens, Turns: s.Budget.Turns, Calls: s.Budget.Tools}
	for _, t := range s.Tools {
		out.Tools = append(out.Tools, abi.ToolSpec(t))
	}
	return abi.AppendStart(nil, out)
}

// serve answers one request. An error is a fault of the host and ends the run; what the
// harness may see is in the answer.
func serve(ctx context.Context, payload []byte, host engine.Host) (abi.Answer, error) {
	r, err := abi.DecodeRequest(payload)
	if err != nil {
		return abi.Answer{}, &engine.HarnessError{Text: "forged request: " + err.Error()}
	}
	var answer abi.Answer
	switch r.Kind {
	case abi.Generate:
		answer.Replies, err = generate(ctx, r, host)
	case abi.Tool:
		answer.Text, err = host.Tool(ctx, r.Name, r.Args)
	case abi.Note:
		err = host.Note(ctx, engine.Note{Log: r.Log, Submit: r.Submit})
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return abi.Answer{Status: s.status, Text: detail(err, s.err)}, nil
		}
	}
	return answer, err
}

func generate(ctx context.Context, r abi.Request, host engine.Host) ([]abi.Reply, error) {
	messages := make([]engine.Message, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = engine.Message(m)
	}
	replies, err := host.Generate(ctx, messages, engine.GenerateOptions{Samples: r.Samples, MaxTokens: r.MaxTokens, Tools: r.Tools})
	if err != nil {
		return nil, err
	}
	if len(replies) == 0 {
		return nil, engine.Fail(engine.AtPolicy, "generate", errors.New("no reply and no error"))
	}
	out := make([]abi.Reply, len(replies))
	for i, a := range replies {
		out[i] = abi.Reply{Handle: a.Handle, Text: a.Text, Stop: string(a.Stop), Tokens: a.Tokens}
	}
	return out, nil
}

// detail is what an error says beyond its sentinel.
func detail(err, sentinel error) string {
	if text := err.Error(); text != sentinel.Error() {
		return text
	}
	return ""
}
