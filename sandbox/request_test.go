package sandbox

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
)

// FuzzServe: whatever a guest sends for a request, the host is called with what it says or
// the run ends as the harness's fault.
func FuzzServe(f *testing.F) {
	for _, r := range []abi.Request{{Kind: abi.Generate, Messages: []abi.Message{{Role: "user", Content: "x", Handle: -9}}, Samples: -1},
		{Kind: abi.Tool, Name: "t", Args: "\xff"}, {Kind: abi.Note, Log: "l", Submit: 1 << 40}} {
		f.Add(abi.AppendRequest(nil, r))
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, payload []byte) {
		host := &script{generate: func([]engine.Message, engine.GenerateOptions) ([]engine.Reply, error) {
			return []engine.Reply{{Handle: 1, Text: "x", Stop: engine.StopEnd}}, nil
		}}
		answer, err := serve(context.Background(), payload, host)
		var forged *engine.HarnessError
		if err != nil {
			if _, bad := abi.DecodeRequest(payload); bad != nil && !errors.As(err, &forged) {
				t.Fatal(err)
			}
			return
		}
		if _, err := abi.DecodeAnswer(abi.AppendAnswer(nil, answer)); err != nil {
			t.Fatal(err)
		}
	})
}
