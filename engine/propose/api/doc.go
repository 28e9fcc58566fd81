// Package api lets a language model behind a service propose harnesses: an agent loop of
// its own with the tools Read, Glob, Grep, Write and Edit, confined to what a run folder
// lays out for proposers; it writes to the slots of its desk and nowhere else.
//
//	proposer.go   one call of Propose: desk, conversation, candidates
//	talk.go       the loop: reply, tools, reply, until the model is done or a limit ends it
//	service.go    what a service is to the loop: Model and Chat; retries of what passes
//	tools.go      the tools' declarations, and how a call finds its tool
//	view.go       the files that the tools see, through os.Root
//	price.go      what tokens cost
//
// Packages anthropic and openai below it bind the official clients to Model; they are the
// only ones that compile those. The package itself is the standard library and knows no
// service's protocol. It may not know what a good harness is.
//
// What is covered: a service that is busy, stalls, drops, or answers garbage (retried with
// backoff); a model that loops, writes outside its slots, or returns nothing; budgets of
// tokens and money over the whole run, also after a restart. What is not: streaming, and
// a conversation that outgrows the model's context, which ends it with what was written.
package api
