package vet

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/sandbox/lower"
)

// Bounds of a source.
const (
	maxSource = 128 << 10 // bytes
	maxDepth  = 200       // open brackets
	maxNodes  = 1000      // nodes above one another
)

const kitPath = lower.Kit

// Imports is what a harness may import.
func Imports() []string {
	return []string{"bytes", "encoding/json", "errors", "fmt", "math", "regexp", "sort", "strconv",
		"strings", "unicode", "unicode/utf8", kitPath}
}

// instead says what to do without a package that harnesses often want.
var instead = map[string]string{
	"slices":    "write the loop, or use sort",
	"maps":      "write the loop",
	"cmp":       "compare with <",
	"os":        "a harness has no files, environment or processes",
	"time":      "a harness has no clock; budgets are in s.Remaining()",
	"math/rand": "a harness has no randomness; the engine samples",
	"context":   "the engine ends a rollout by itself",
	"sync":      "a harness runs on one goroutine",
	"log":       "use s.Log",
	"io":        "use strings.Builder",
	"bufio":     "use strings.Split",
}

// tooDeep counts brackets before the parser, whose recursion they would drive.
func tooDeep(source string) (at token.Position, deep bool) {
	fset := token.NewFileSet()
	f := fset.AddFile(file, -1, len(source))
	var s scanner.Scanner
	s.Init(f, []byte(source), nil, 0)
	for open := 0; ; {
		pos, tok, _ := s.Scan()
		switch tok {
		case token.EOF:
			return token.Position{}, false
		case token.LPAREN, token.LBRACK, token.LBRACE:
			if open++; open > maxDepth {
				return fset.Position(pos), true
			}
		case token.RPAREN, token.RBRACK, token.RBRACE:
			open--
		}
	}
}

// depth is how many nodes lie above one another: the interpreter recurses over them.
func depth(root ast.Node) (most int) {
	now := 0
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			now--
			return true
		}
		now++
		most = max(most, now)
		return true
	})
	return most
}

// contract checks what a harness is, on the syntax alone.
func contract(p *program) {
	if name := p.file.Name; name.Name != "harness" {
		p.refuseAs(name, "contract", "package "+name.Name, "write package harness")
	}
	for _, i := range p.file.Imports {
		checkImport(p, i)
	}
	hasRun := false
	for _, d := range p.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			hasRun = hasRun || f.Recv == nil && f.Name.Name == "Run"
			if f.Body == nil {
				p.refuseAs(f, "contract", "function without a body", "write its body")
			}
		}
	}
	if !hasRun {
		p.refuseAs(p.file.Name, "contract", "no function Run", "write func Run(s *kit.Session) error")
	}
	for _, group := range p.file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//export") {
				p.refuseAs(c, "contract", "compiler directive", "leave it out")
			}
		}
	}
	ast.Inspect(p.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			p.refuseAs(n, "contract", "go statement", "call the function: a harness runs on one goroutine")
		case *ast.ChanType:
			p.refuseAs(n, "contract", "channel", "use a slice: a harness runs on one goroutine")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				p.refuseAs(n, "contract", "channel operation", "a harness runs on one goroutine")
			}
		case *ast.SelectStmt, *ast.SendStmt:
			p.refuseAs(n, "contract", "channel operation", "a harness runs on one goroutine")
		}
		return true
	})
}

func checkImport(p *program, i *ast.ImportSpec) {
	path, err := strconv.Unquote(i.Path.Value)
	if err != nil || !slices.Contains(Imports(), path) {
		hint := instead[path]
		if hint == "" {
			hint = "allowed are " + strings.Join(Imports(), ", ")
		}
		p.refuseAs(i, "contract", "import of "+i.Path.Value, hint)
		return
	}
	if i.Name == nil {
		return
	}
	if name := i.Name.Name; name == "." || name == "_" {
		p.refuseAs(i, "contract", "import of "+i.Path.Value+" as "+name, "import it by its name")
	}
}
