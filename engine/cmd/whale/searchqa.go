package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/seed-7c27e6b8/whale/bench/searchqa"
	"github.com/seed-7c27e6b8/whale/bench/searchqa/parquet"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openSearchQA reads a folder of questions. Services that only some have are named by the
// environment, so that no address or key gets into a run's files: WHALE_RETRIEVER is the
// URL of a Search-R1 retrieval server that takes the place of the corpus, WHALE_JUDGE that
// of a chat endpoint in OpenAI's form with the model WHALE_JUDGE_MODEL and, if it wants
// one, the key WHALE_JUDGE_KEY.
func openSearchQA(data string) (*engine.Domain, []string, error) {
	if data == "" {
		return nil, nil, usageError{engine.Fail(engine.AtTask, searchqa.Name, errors.New("wants --data, a folder with questions and corpus.jsonl"))}
	}
	var notices []string
	o := searchqa.Options{Parquet: parquet.Rows, Retriever: searchqa.Endpoint{URL: os.Getenv("WHALE_RETRIEVER")}}
	if url := os.Getenv("WHALE_JUDGE"); url != "" {
		model := os.Getenv("WHALE_JUDGE_MODEL")
		if model == "" {
			return nil, nil, usageError{engine.Fail(engine.AtVerifier, "judge", errors.New("WHALE_JUDGE is set, WHALE_JUDGE_MODEL is not"))}
		}
		o.Judge = searchqa.NewModel(searchqa.Endpoint{URL: url, Key: os.Getenv("WHALE_JUDGE_KEY")}, model)
		notices = append(notices, fmt.Sprintf("answers that are not golden word for word are judged by %s at %s", model, url))
	}
	domain, reports, err := searchqa.Open(data, o)
	return domain, append(notices, lines(reports)...), err
}
