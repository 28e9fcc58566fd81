// Package vet decides whether a candidate's source may be run. It refuses, with a line, a
// reason and what to write instead, in five steps:
//
//	parse     Go's own syntax, size and nesting within bounds
//	contract  package harness, func Run(*kit.Session) error, only the imports of Imports,
//	          no goroutines, channels or unsafe code
//	type      Go's own types, at the language version of this binary's Go
//	lower     package lower rewrites what is local and mechanical
//	rules     what the interpreter (yaegi v0.16.1) would run differently from Go, mostly
//	          without an error: see Rules, one file per family, each rule with a wrong and
//	          a rewritten program in the test
//
// Prepare gives the lowered source, which is what runs. Positions in messages are those of
// the source as it was written.
//
// The rules err on the side of refusing: a harness must never run silently wrong, and the
// hint says how to go on.
//
// Effort: each step bounds what it does with a source of the largest size; the worst of
// eighteen sources made to be slow took 5 s of processor time.
//
// Not covered: differences in the texts of runtime panics and json errors; an implicit
// panic inside a deferred function; the order of operands where Go leaves it open and the
// change goes through a pointer, an element or an interface; generic code beyond what the
// interpreter itself refuses.
package vet
