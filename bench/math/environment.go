package math

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Interpreter runs the programs of the code tool. It is used from many goroutines at once.
type Interpreter interface {
	// Run runs a program and returns what it printed. A mistake of the program is part of
	// that text; an error is a fault of the host.
	Run(ctx context.Context, program string) (string, error)
	// Dialect tells the model in a sentence what it may write.
	Dialect() string
}

// Limits of the code tool, for every interpreter.
const (
	maxProgram = 32 << 10 // bytes of a program
	maxOutput  = 4 << 10  // bytes of output that a harness gets
)

// ToolName of the code tool.
const ToolName = "python"

func codeTool(code Interpreter) engine.ToolSpec {
	return engine.ToolSpec{
		Name:        ToolName,
		Description: "Runs a program and returns what it printed. " + code.Dialect(),
		Schema:      `{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`,
	}
}

// environment serves the code tool of one rollout. Programs share nothing.
type environment struct{ code Interpreter }

// Tool runs a program.
func (e *environment) Tool(ctx context.Context, call engine.ToolCall) (string, error) {
	if call.Name != ToolName {
		return "", fmt.Errorf("%w: no tool %q", engine.ErrTool, clip(call.Name))
	}
	var args struct {
		Code *string `json:"code"`
	}
	if err := json.Unmarshal([]byte(call.Args), &args); err != nil {
		return "", fmt.Errorf("%w: arguments of %s: %v", engine.ErrTool, ToolName, err)
	}
	if args.Code == nil {
		return "", fmt.Errorf("%w: %s needs code", engine.ErrTool, ToolName)
	}
	if len(*args.Code) > maxProgram {
		return fmt.Sprintf("Error: the program is longer than %d bytes", maxProgram), nil
	}
	if e.code == nil {
		return "Error: there is no interpreter, solve it without", nil
	}
	output, err := e.code.Run(ctx, *args.Code)
	if err != nil {
		return "", engine.Fail(engine.AtTask, ToolName, err)
	}
	output = strings.ToValidUTF8(output, "\uFFFD")
	if len(output) > maxOutput {
		output = cut(output, maxOutput) + "\n(output cut)"
	}
	return output, nil
}

// Record is empty: only what the model answers counts.
func (e *environment) Record() string { return "" }

// clip shortens a text for a verdict or message.
func clip(text string) string {
	if len(text) > 200 {
		return cut(text, 200) + "..."
	}
	return text
}

// cut keeps at most n bytes of whole characters.
func cut(text string, n int) string {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:min(n, len(text))]
}
