package vet

import (
	"go/scanner"
	"go/token"
	"strings"
	"testing"
)

// moved gives the first token of a lowered source that is not on the line that it comes
// from; "" = none. What is added at the end comes from no line.
func moved(p *program) string {
	text := p.text.Source
	fset := token.NewFileSet()
	f := fset.AddFile(file, -1, len(text))
	var s scanner.Scanner
	s.Init(f, []byte(text), nil, 0)
	for {
		pos, tok, lit := s.Scan()
		at := f.Offset(pos)
		from := p.text.Origin(at)
		if tok == token.EOF || from >= len(p.source) {
			return ""
		}
		if tok != token.SEMICOLON && strings.Count(p.source[:from], "\n") != strings.Count(text[:at], "\n") {
			return tok.String() + " " + lit + " on " + f.Position(pos).String()
		}
	}
}

// FuzzLower: lowering makes no source of one that type-checks that doesn't, and moves
// nothing to another line.
func FuzzLower(f *testing.F) {
	for _, row := range table {
		f.Add(source(row.wrong))
		f.Add(source(strings.NewReplacer("; ", "\n", "{ ", "{\n", ", ", ",\n").Replace(row.wrong)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, found := read(text)
		if len(found) > 0 {
			return
		}
		q, err := p.lower()
		if err != nil {
			t.Fatal(err)
		}
		if len(p.found) > 0 {
			return
		}
		again, found := read(q.text.Source)
		if len(found) > 0 {
			t.Fatalf("%v\n%s", found[0], q.text.Source)
		}
		if err := check(again); err != nil || len(again.found) > 0 {
			t.Fatalf("%v, %v\n%s", err, again.sorted(), q.text.Source)
		}
		if token := moved(q); token != "" {
			t.Fatalf("%s moved\n%s\n%s", token, text, q.text.Source)
		}
	})
}
