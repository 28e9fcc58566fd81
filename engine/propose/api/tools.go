package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// tools are what a model may use.
var tools = []Tool{
	{"Read", "Reads a text file; lines come with their numbers.", []Argument{
		{"file_path", "string", "Path relative to the working folder.", true},
		{"offset", "integer", "First line to read, from 1.", false},
		{"limit", "integer", "Lines to read at most.", false}}},
	{"Glob", "Lists files by pattern, such as harnesses/*/harness.go or cycles/**/report.json.", []Argument{
		{"pattern", "string", "* and ? within a name, ** for any folders.", true}}},
	{"Grep", "Searches in files for a regular expression (RE2), line by line.", []Argument{
		{"pattern", "string", "The expression.", true},
		{"path", "string", "Only in this file, folder or glob pattern.", false}}},
	{"Write", "Writes a whole file: out/SLOT/harness.go or out/SLOT/meta.json.", []Argument{
		{"file_path", "string", "The file.", true},
		{"content", "string", "All of its text.", true}}},
	{"Edit", "Replaces a text in a file that you wrote.", []Argument{
		{"file_path", "string", "The file.", true},
		{"old_string", "string", "The text as it stands there, once.", true},
		{"new_string", "string", "What takes its place.", true},
		{"replace_all", "boolean", "Replace it everywhere.", false}}},
}

// Schema is the JSON schema of a tool's arguments.
func (t Tool) Schema() (properties map[string]any, required []string) {
	properties = map[string]any{}
	for _, a := range t.Arguments {
		properties[a.Name] = map[string]any{"type": a.Type, "description": a.Description}
		if a.Required {
			required = append(required, a.Name)
		}
	}
	return properties, required
}

// arguments of all tools together. What is not given is zero.
type arguments struct {
	FilePath   string  `json:"file_path"`
	Offset     float64 `json:"offset"` // some models write 1.0
	Limit      float64 `json:"limit"`
	Pattern    string  `json:"pattern"`
	Path       string  `json:"path"`
	Content    *string `json:"content"`
	Old        string  `json:"old_string"`
	New        string  `json:"new_string"`
	ReplaceAll bool    `json:"replace_all"`
}

// use runs one call. A mistake of the model comes back as a failed result; the context's
// end is an error.
func (v *view) use(ctx context.Context, c Call) (Result, error) {
	text, err := v.dispatch(ctx, c)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		return Result{ID: c.ID, Text: "Error: " + err.Error(), Failed: true}, nil
	}
	return Result{ID: c.ID, Text: text}, nil
}

func (v *view) dispatch(ctx context.Context, c Call) (string, error) {
	var a arguments
	args := c.Args
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil {
		return "", fmt.Errorf("the arguments can't be read: %w", err)
	}
	switch c.Name {
	case "Read":
		return v.read(a.FilePath, whole(a.Offset), whole(a.Limit))
	case "Glob":
		return v.glob(ctx, a.Pattern)
	case "Grep":
		return v.grep(ctx, a.Pattern, a.Path)
	case "Write":
		if a.Content == nil {
			return "", errors.New("content is missing")
		}
		return v.write(a.FilePath, *a.Content)
	case "Edit":
		return v.edit(a.FilePath, a.Old, a.New, a.ReplaceAll)
	}
	return "", fmt.Errorf("there is no tool %q", c.Name)
}

// whole turns a number into a line number or count, far from any overflow.
func whole(f float64) int { return int(max(0, min(f, 1e9))) }
