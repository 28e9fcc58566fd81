package main

import (
	"errors"
	"os"
	"strings"

	"github.com/seed-7c27e6b8/whale/bench/math"
	"github.com/seed-7c27e6b8/whale/bench/math/fusion"
	"github.com/seed-7c27e6b8/whale/bench/math/micropython"
	"github.com/seed-7c27e6b8/whale/bench/math/starlark"
	"github.com/seed-7c27e6b8/whale/engine"
)

// openMath reads a folder of problems. What runs the code tool's programs is named by the
// environment, like the services of other domains: WHALE_CODE is the URL of a
// SandboxFusion service or the path of a micropython.wasm; without it Starlark runs them.
func openMath(data string) (*engine.Domain, []string, error) {
	if data == "" {
		return nil, nil, usageError{engine.Fail(engine.AtTask, math.Name, errors.New("wants --data, a folder with *_train.jsonl and test sets, or one JSONL file"))}
	}
	code, err := openCode(os.Getenv("WHALE_CODE"))
	if err != nil {
		return nil, nil, usageError{engine.Fail(engine.AtTask, "WHALE_CODE", err)}
	}
	domain, reports, err := math.Open(data, math.Options{Code: code})
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
	}
	return fusion.New(where, fusion.Options{})
}
