// Package trainer is the model: it loads, generates, scores, updates and saves a
// decoder-only transformer on one device of package cuda.
//
//	Model     the weights in one arena, and which range of it each tensor is
//	tape      the activations of one micro-batch: forward.go, head.go, backward.go
//	optimizer AdamW moments beside the weights
//	Policy    many Generate calls at once over a paged key/value cache (engine.Policy)
//	Learner   one optimizer step on sampled tokens (engine.Learner)
//	Trainer   all of it around one device; what package main wires
//
// Policy and learner share weights and operators, so the log-probability of a sampled
// token is the one that the update sees. A row's bits depend on its own sequence only,
// never on what else is in the batch, in the cache or on how many threads there are.
//
// The package may not know tasks, harnesses, rewards or files of a run. Definitions:
// spec/models.md sections 0 to 3 and 7, spec/rsft.md sections 2 to 5.
//
// Not covered: training below bfloat16, several devices, layers that mix tokens otherwise
// than by full attention (mixer is where they would join), and dropout.
package trainer
