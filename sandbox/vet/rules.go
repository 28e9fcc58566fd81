package vet

import "slices"

// Rules is every rule, in families. The names are those of the measurements that they come
// from (shared/spec/interpreter.md, sections 3 and 4).
var Rules = slices.Concat(loopRules, resultRules, assignRules, switchRules, interfaceRules, printRules, constantRules, syntaxRules, recursiveRules, orderRules)
