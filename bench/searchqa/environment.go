package searchqa

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine"
)

// NoResults is what the search tool says when no passage holds a word of the query.
const NoResults = "No results."

const (
	maxPassages = 10   // of one search
	maxQuery    = 4096 // bytes of a query
	maxPassage  = 8192 // bytes of a passage that a search shows
)

var searchTool = engine.ToolSpec{
	Name:        "search",
	Description: "Finds the passages of an encyclopedia that fit a query best, one a line, each `Title: text`; \"" + NoResults + "\" when none fits.",
	Schema:      `{"type":"object","properties":{"query":{"type":"string"},"k":{"type":"string","description":"how many passages, 1 to 10"}},"required":["query"]}`,
}

// environment serves searches; it has no state.
type environment struct{ searcher searcher }

// Tool runs `search`; its arguments are {"query": text, "k": number or its digits}.
func (e environment) Tool(ctx context.Context, call engine.ToolCall) (string, error) {
	if call.Name != searchTool.Name {
		return "", fmt.Errorf("%w: no tool %q, there is search", engine.ErrTool, clip(call.Name, 40))
	}
	var args struct {
		Query string          `json:"query"`
		K     json.RawMessage `json:"k"`
	}
	if err := json.Unmarshal([]byte(call.Args), &args); err != nil {
		return "", fmt.Errorf("%w: arguments of search: %s", engine.ErrTool, clip(err.Error(), 120))
	}
	k := 1
	if len(args.K) > 0 {
		n, err := strconv.Atoi(strings.Trim(string(args.K), `"`))
		if err != nil || n < 1 {
			return "", fmt.Errorf("%w: search: k is %s, a number from 1 to %d is wanted", engine.ErrTool, clip(string(args.K), 40), maxPassages)
		}
		k = min(n, maxPassages)
	}
	query := strings.TrimSpace(cut(args.Query, maxQuery))
	if query == "" {
		return NoResults, nil
	}
	found, err := e.searcher.search(ctx, query, k)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return NoResults, nil
	}
	for i, contents := range found {
		found[i] = cut(oneLine(contents), maxPassage)
	}
	return strings.Join(found, "\n"), nil
}

// Record is empty: only what the model answers counts.
func (environment) Record() string { return "" }

// cut keeps the first bytes of a text, whole runes only.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
