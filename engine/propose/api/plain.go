package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// A model whose service has no place for tools is asked in words, once for each slot, and
// its reply is the candidate. What it is told shrinks until it fits into the model's
// context.
const (
	plainSystem = "You improve the Go program around a language model. Reply with one sentence and one complete Go file."
	plainMost   = 64 << 10 // bytes that the first question has
	plainLeast  = 500      // below that a shorter one says nothing any more
)

// noTools tells whether a service refused a conversation since it offered tools: whale
// serve, vLLM, Ollama and llama.cpp word it differently, and with different statuses.
func noTools(err error) bool {
	var failed *ServiceError
	return errors.As(err, &failed) && failed.Status >= 400 && strings.Contains(strings.ToLower(failed.Err.Error()), "tool")
}

// tooLong tells whether a service refused a question for its length.
func tooLong(err error) bool {
	var failed *ServiceError
	if !errors.As(err, &failed) || failed.Status != 400 && failed.Status != 413 {
		return false
	}
	text := strings.ToLower(failed.Err.Error())
	return failed.Status == 413 || strings.Contains(text, "context") || strings.Contains(text, "too long")
}

// plain asks for the slots one after the other.
func (t *talk) plain(ctx context.Context, b engine.Brief) error {
	most := plainMost
	for slot := 1; slot <= b.Slots; {
		if err := t.p.Budget.Check(t.before.Add(t.cost)); err != nil {
			return err
		}
		text := desk.Plain(b, slot, most)
		chat := t.p.Model.Open(Opening{System: plainSystem, MaxTokens: t.maxTokens()})
		begin := time.Now()
		reply, err := t.p.say(ctx, chat, Input{Text: text})
		seconds := time.Since(begin).Seconds()
		if tooLong(err) && most > plainLeast {
			if err := t.note(entry{Error: err.Error()}); err != nil {
				return err
			}
			most = max(plainLeast, min(most, len(text))/2)
			continue
		}
		if err != nil {
			return t.failed(err, seconds)
		}
		if err := t.note(entry{User: text}); err != nil {
			return err
		}
		if err := t.account(reply, seconds); err != nil {
			return err
		}
		t.said = reply.Text
		if reply.Cut && reply.Usage.Output < t.maxTokens()/2 && most > plainLeast {
			most = max(plainLeast, min(most, len(text))/2) // the context ended it, not the limit
			continue
		}
		if err := t.draft(slot, reply.Text); err != nil {
			return err
		}
		slot++
	}
	return nil
}

// draft writes what a reply holds to its slot. A reply that can't be written is noted and
// leaves the slot empty.
func (t *talk) draft(slot int, reply string) error {
	source, note := desk.Drafted(reply)
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	folder := path.Join("out", fmt.Sprint(slot))
	for _, f := range []struct{ name, content string }{{"harness.go", source}, {"meta.json", string(text)}} {
		if _, err := t.files.write(path.Join(folder, f.name), f.content); err != nil {
			return t.note(entry{Error: err.Error()})
		}
	}
	return nil
}
