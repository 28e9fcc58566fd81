// Package lower rewrites a type-checked harness, source to source, into the part of Go that
// the interpreter (yaegi v0.16.1) gets right. Each rewrite is local, means the same in Go,
// and keeps every statement on its line; Text knows where each byte of the new source comes
// from, so that messages carry positions of the text that its author wrote.
//
//	text.go     a source, and where its bytes come from; edits
//	pass.go     one round: find rewrites, apply those that don't touch one another
//	facts.go    what rewrites ask about types and places
//	convert.go  where values become interfaces; package vet asks it too
//	loop.go     copies of loop variables, range over strings, integers, pointers to arrays
//	result.go   named results, return
//	assign.go   several assignments at once, literals, comma-ok
//	choice.go   switches, parentheses, constants
//	logic.go    && and || whose left operand begins with a keyed element
//	generic.go  type arguments
//	value.go    values that become interfaces, method values, append
//	defer.go    deferred arguments, defer in a loop, closures of a function that defers
//	order.go    package variables that need later ones
//	newer.go    min, max, clear
//
// It doesn't know what is dangerous: package vet judges what comes out. A rewrite whose
// conditions don't hold is left out, and then vet refuses the source.
//
// Not covered: what needs more than a local change (default before other cases, types that
// look alike, methods that fmt and json do not call, generic code by type).
package lower
