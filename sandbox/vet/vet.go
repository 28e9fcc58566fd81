package vet

import "github.com/seed-7c27e6b8/whale/engine"

// Check says why a source can't be run, or nil.
func Check(source string) *engine.LoadError { return nil }
