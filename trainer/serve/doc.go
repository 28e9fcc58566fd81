// Package serve offers a model of the trainer over HTTP in the form that OpenAI's clients
// speak, so that other harnesses and evaluators can use the weights of a run:
//
//	GET  /v1/models
//	POST /v1/chat/completions   messages, tools, n, stream, logprobs, seed, stop
//	POST /v1/completions        a prompt as text or as token ids
//	POST /tokenize              messages or text as token ids
//	GET  /health
//
// Beyond that form, `"return_token_ids": true` adds prompt_token_ids to an answer and
// token_ids to its choices, and system_fingerprint is the weights id. A call is a function
// of its request: seed s gives the ids that the policy gives in process for seed s; choice
// number i > 0 of n draws with seed s + i. Without a seed it is a random one.
//
// Every request is foreign: its size, its counts and its texts are bounded, and what is
// asked for but not offered (logit_bias, penalties, response_format, audio, images) is
// refused by name rather than ignored.
//
// Not covered: TLS, more than one model, embeddings, the responses protocol.
package serve
