package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench/math"
	"github.com/seed-7c27e6b8/whale/bench/math/fusion"
	"github.com/seed-7c27e6b8/whale/bench/math/micropython"
	"github.com/seed-7c27e6b8/whale/bench/math/python"
	"github.com/seed-7c27e6b8/whale/bench/math/starlark"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openMath reads a folder of problems. Services.Code says what runs the code tool's
// programs.
func openMath(c engine.Config) (*engine.Domain, []string, error) {
	if c.Data == "" {
		return nil, nil, usageError{engine.Fail(engine.AtTask, math.Name, errors.New("wants --data, a folder with *_train.jsonl and test sets, or one JSONL file"))}
	}
	code, err := openCode(c.Services.Code)
	if err != nil {
		return nil, nil, usageError{engine.Fail(engine.AtTask, "code", err)}
	}
	domain, reports, err := math.Open(c.Data, math.Options{Test: c.Tasks.Test, Select: c.Tasks.Select, Train: c.Tasks.Train,
		CallTokens: c.Tasks.CallTokens, Code: code})
	return domain, lines(reports), err
}

func openCode(where string) (math.Interpreter, error) {
	switch {
	case where == "":
		return starlark.New(), nil
	case strings.HasSuffix(where, ".wasm"):
		if _, err := os.Stat(where); err != nil {
			return nil, err
		}
		return micropython.New(where), nil
	case strings.HasPrefix(filepath.Base(where), "python"):
		return python.New(where), nil
	}
	return fusion.New(where, fusion.Options{})
}
