package searchqa

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench/searchqa/bm25"
)

// searcher finds passages: the index over a corpus, or a service.
type searcher interface {
	// search returns the contents of at most k passages, best first. An error is a
	// fault of the host.
	search(ctx context.Context, query string, k int) ([]string, error)
}

// local searches an index.
type local struct{ index *bm25.Index }

func (l local) search(_ context.Context, query string, k int) ([]string, error) {
	var found []string
	for _, hit := range l.index.Search(query, k) {
		found = append(found, l.index.Passage(hit.Passage).Text)
	}
	return found, nil
}

// retriever asks a retrieval server as Search-R1 runs one.
type retriever struct{ service *service }

// retrieval is the request of POST /retrieve.
type retrieval struct {
	Queries      []string `json:"queries"`
	TopK         int      `json:"topk"`
	ReturnScores bool     `json:"return_scores"`
}

// retrieved is its reply: for each query a list of documents.
type retrieved struct {
	Result [][]document `json:"result"`
}

// document is {"document": {"contents": ..}, "score": ..}, or the inner object alone, as
// servers answer that give no scores.
type document struct{ contents string }

func (d *document) UnmarshalJSON(data []byte) error {
	type plain struct {
		Contents *string `json:"contents"`
	}
	var both struct {
		plain
		Document *plain `json:"document"`
	}
	if err := json.Unmarshal(data, &both); err != nil {
		return err
	}
	if both.Document != nil {
		both.plain = *both.Document
	}
	if both.Contents == nil {
		return fmt.Errorf("a document without contents")
	}
	d.contents = *both.Contents
	return nil
}

func (r retriever) search(ctx context.Context, query string, k int) ([]string, error) {
	var reply retrieved
	request := retrieval{Queries: []string{query}, TopK: k, ReturnScores: true}
	if err := r.service.post(ctx, request, &reply); err != nil {
		return nil, err
	}
	if len(reply.Result) != 1 {
		return nil, fmt.Errorf("%w: %s: %d results for one query", ErrService, r.service.URL, len(reply.Result))
	}
	var found []string
	for _, d := range reply.Result[0][:min(k, len(reply.Result[0]))] {
		found = append(found, d.contents)
	}
	return found, nil
}

// oneLine is a passage as a harness sees it: `Title: text` in one line. The contents of a
// Search-R1 corpus are the title in quotes, a line break and the text.
func oneLine(contents string) string {
	title, text, ok := strings.Cut(contents, "\n")
	if !ok {
		return strings.Join(strings.Fields(contents), " ")
	}
	return strings.Trim(strings.TrimSpace(title), `"`) + ": " + strings.Join(strings.Fields(text), " ")
}
