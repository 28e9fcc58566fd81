package engine

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
)

// promptsOnlyRule is added to the advice for proposers.
const promptsOnlyRule = `

## Prompts only

In this run a candidate may differ from the seed harness in nothing but the values of its
string constants at package level. Anything else is refused: no other code, no new
constant, no limit, no tool.
`

// PromptsOnly refuses a candidate that differs from the seed harness in more than the
// values of its prompts: the string constants of the package. Comments and layout do not
// count. nil = it differs in nothing else.
//
// Values are found on the syntax tree; then both sources must be the same tokens, with
// every value being one token that equals any other.
func PromptsOnly(seed, candidate string) *LoadError {
	want, err := maskPrompts(seed)
	if err != nil {
		return &LoadError{Rule: "prompt-only", Reason: "the seed harness is not Go: " + oneLine(err)}
	}
	got, err := maskPrompts(candidate)
	if err != nil {
		refused := &LoadError{Rule: "parse", Reason: oneLine(err)}
		var list scanner.ErrorList
		if errors.As(err, &list) && len(list) > 0 {
			refused.Line, refused.Column, refused.Reason = list[0].Pos.Line, list[0].Pos.Column, oneLine(errors.New(list[0].Msg))
		}
		return refused
	}
	for i, g := range got {
		if i >= len(want) || g.text != want[i].text {
			return &LoadError{Line: g.at.Line, Column: g.at.Column, Rule: "prompt-only",
				Reason: fmt.Sprintf("%s differs from the seed harness", g.text),
				Hint:   "change values of string constants at package level only"}
		}
	}
	if len(got) < len(want) {
		return &LoadError{Rule: "prompt-only", Reason: fmt.Sprintf("%s of the seed harness is missing at the end", want[len(got)].text),
			Hint: "change values of string constants at package level only"}
	}
	return nil
}

// lexeme is a token of a source and where it stands.
type lexeme struct {
	text string
	at   token.Position
}

// promptMark stands for a prompt's value; no token of Go looks like it.
const promptMark = "a prompt"

// maskPrompts lists a source's tokens with promptMark in place of each prompt's value.
func maskPrompts(source string) ([]lexeme, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "harness.go", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var values []ast.Expr // in the order of the source
	for _, d := range tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, spec := range g.Specs {
				for _, v := range spec.(*ast.ValueSpec).Values {
					if isText(v) {
						values = append(values, v)
					}
				}
			}
		}
	}
	var s scanner.Scanner
	file := files.AddFile("harness.go", -1, len(source))
	s.Init(file, []byte(source), nil, 0)
	var out []lexeme
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out, nil
		}
		at := files.Position(pos)
		for len(values) > 0 && at.Offset >= offset(values[0].End()) {
			values = slices.Delete(values, 0, 1)
		}
		switch inside := len(values) > 0 && at.Offset >= offset(values[0].Pos()); {
		case inside && at.Offset == offset(values[0].Pos()):
			out = append(out, lexeme{promptMark, at})
		case inside:
		case tok == token.SEMICOLON: // written or implied by the end of a line
			out = append(out, lexeme{";", at})
		case lit != "":
			out = append(out, lexeme{lit, at})
		default:
			out = append(out, lexeme{tok.String(), at})
		}
	}
}

// isText says whether a constant's value is written as text: literals, joined by +.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD && isText(e.X) && isText(e.Y)
	case *ast.ParenExpr:
		return isText(e.X)
	}
	return false
}
