package main

import (
	"os"

	"github.com/seed-7c27e6b8/whale/engine"
)

// choiceFlags choose tasks of a domain with data, and the services that it uses.
type choiceFlags struct {
	LimitTest   *int    `placeholder:"N" help:"At most N tasks of each test set; -1 = all (searchqa)."`
	LimitSelect *int    `placeholder:"N" help:"Size of the select split, which is cut from the training tasks."`
	LimitTrain  *int    `placeholder:"N" help:"At most N training tasks."`
	CallTokens  *int    `placeholder:"N" help:"Assistant tokens of one reply."`
	Themes      *string `placeholder:"A,B" help:"Only chess puzzles with one of these Lichess themes."`
	Retriever   *string `placeholder:"URL" help:"Search-R1 retrieval server for searchqa; or WHALE_RETRIEVER."`
	Judge       *string `placeholder:"URL" help:"Chat endpoint that judges answers of searchqa; or WHALE_JUDGE, with the key in WHALE_JUDGE_KEY."`
	JudgeModel  *string `placeholder:"NAME" help:"Model of the judge; or WHALE_JUDGE_MODEL."`
	Code        *string `placeholder:"WHAT" help:"What runs the programs of math: a micropython.wasm, python3, or the URL of a SandboxFusion service; or WHALE_CODE. Starlark without."`
}

// choose puts the flags over what a config has.
func (f choiceFlags) choose(c *engine.Config) {
	set(&c.Tasks.Test, f.LimitTest)
	set(&c.Tasks.Select, f.LimitSelect)
	set(&c.Tasks.Train, f.LimitTrain)
	set(&c.Tasks.CallTokens, f.CallTokens)
	set(&c.Tasks.Themes, f.Themes)
	set(&c.Services.Retriever, f.Retriever)
	set(&c.Services.Judge, f.Judge)
	set(&c.Services.JudgeModel, f.JudgeModel)
	set(&c.Services.Code, f.Code)
}

// surrounded fills in services from the environment: where none is named, and where the
// named one is the same without its secrets, as run.yaml has it.
func surrounded(domain string, s engine.Services) engine.Services {
	for _, v := range []struct {
		name, domain string
		to           *string
	}{
		{"WHALE_RETRIEVER", "searchqa", &s.Retriever}, {"WHALE_JUDGE", "searchqa", &s.Judge},
		{"WHALE_JUDGE_MODEL", "searchqa", &s.JudgeModel}, {"WHALE_CODE", "math", &s.Code},
	} {
		value := os.Getenv(v.name)
		if domain == v.domain && value != "" && (*v.to == "" || *v.to == engine.PublicAddress(value)) {
			*v.to = value
		}
	}
	return s
}
