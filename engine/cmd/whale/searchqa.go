package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/seed-7c27e6b8/whale/bench/searchqa"
	"github.com/seed-7c27e6b8/whale/bench/searchqa/parquet"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openSearchQA reads a folder of questions, with the services that a config names. The
// judge's key, if it wants one, is WHALE_JUDGE_KEY.
func openSearchQA(c engine.Config) (*engine.Domain, []string, error) {
	if c.Data == "" {
		return nil, nil, usageError{engine.Fail(engine.AtTask, searchqa.Name, errors.New("wants --data, a folder with questions and corpus.jsonl"))}
	}
	var notices []string
	s := c.Services
	o := searchqa.Options{Test: c.Tasks.Test, Select: c.Tasks.Select, Train: c.Tasks.Train, CallTokens: c.Tasks.CallTokens,
		Parquet: parquet.Rows, Retriever: searchqa.Endpoint{URL: s.Retriever}}
	if s.Judge != "" {
		if s.JudgeModel == "" {
			return nil, nil, usageError{engine.Fail(engine.AtVerifier, "judge", errors.New("there is a judge, but no judge model"))}
		}
		o.Judge = searchqa.NewModel(searchqa.Endpoint{URL: s.Judge, Key: os.Getenv("WHALE_JUDGE_KEY")}, s.JudgeModel)
		notices = append(notices, fmt.Sprintf("answers that are not golden word for word are judged by %s at %s", s.JudgeModel, engine.PublicAddress(s.Judge)))
	}
	domain, reports, err := searchqa.Open(c.Data, o)
	return domain, append(notices, lines(reports)...), err
}
