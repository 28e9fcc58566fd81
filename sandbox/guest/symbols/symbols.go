// Package symbols is what interpreted harnesses may import: a dozen standard packages
// and harnesses/kit, as the interpreter wants them. All files but this one are generated;
// Allowed in package vet is the same list for the check before loading, and a test keeps
// the two equal.
//
// fmt comes without everything that reads, prints or writes to a stream that a harness
// doesn't have.
package symbols

import "reflect"

//go:generate go run github.com/traefik/yaegi/cmd/yaegi extract -name symbols bytes encoding/json errors math regexp sort strconv strings unicode unicode/utf8
//go:generate go run github.com/traefik/yaegi/cmd/yaegi extract -name symbols -exclude=^Print|^Scan|^Append fmt
//go:generate go run github.com/traefik/yaegi/cmd/yaegi extract -name symbols -exclude=^NewSession$,^Host$,^Start$,^Note$ github.com/seed-7c27e6b8/whale/harnesses/kit

// Symbols maps "import path/package name" to names to values.
var Symbols = map[string]map[string]reflect.Value{}
