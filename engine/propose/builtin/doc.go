// Package builtin is the proposer that needs no model and no network: it edits the
// syntax tree of archived harnesses.
//
// It reads the failures of the incumbent (diagnosis.go), lists every edit that its
// operators can make to a source (operator.go and one file per kind), weighs each edit
// by how many failures it could cure and by what the same edit brought before
// (choice.go), and fills the slots with the strongest edits alone, two of them at once,
// and a few draws that explore. Everything follows from the Brief, so a resumed run
// proposes what the killed one would have.
//
// Operators find their places by syntax and use (a constant that bounds the loop around
// Generate, a call of Tool), never by the names of one seed harness. What they write
// keeps to the part of Go that the interpreter runs right (spec/interpreter.md section
// 7).
//
// It knows the engine's nouns and the shape of harnesses/kit. It may not know a domain,
// a model or the sandbox; markup and wordings come from SKILL.md, the sources and the
// traces. It does not cover: new prompts in words, new tools, changes that need an idea.
package builtin
