package main

import (
	"errors"
	"os"

	"github.com/seed-7c27e6b8/whale/bench/own"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openOwn reads a user's tasks. What a verifier command writes on standard error goes to
// ours and into no file.
func openOwn(data string) (*engine.Domain, []string, error) {
	if data == "" {
		return nil, nil, usageError{engine.Fail(engine.AtTask, own.Name, errors.New("wants --data, a FILE.jsonl of tasks or a folder with tasks.jsonl; see bench/own/example"))}
	}
	domain, report, err := own.Open(data, own.Options{Log: os.Stderr})
	return domain, []string{report.String()}, err
}
