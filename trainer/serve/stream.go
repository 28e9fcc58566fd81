package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-7c27e6b8/whale/trainer/chat"
)

// stream writes server-sent events. Its headers leave with the first one, so that a
// request that fails before anything was drawn is answered with its status.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	begun bool
}

func (s *stream) send(v any) error {
	if !s.begun {
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		s.begun = true
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "data: %s\n\n", text); err != nil {
		return errGone
	}
	if s.flush.Flush() != nil {
		return errGone
	}
	return nil
}

// end closes the stream; an error in the middle of one becomes its last event.
func (s *stream) end(err error) error {
	if err == nil {
		fmt.Fprint(s.w, "data: [DONE]\n\n") // the client is gone if this fails
		return nil
	}
	if !s.begun {
		return err
	}
	s.send(bodyOf(asRefusal(err))) // the client is gone if this fails
	return nil
}

// streamChat answers with chunks. With tools in the request, text is held back from the
// first sign of a call on, and calls come whole, before the end of their choice.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, p plan, c conversation, head chatAnswer) error {
	out := &stream{w: w, flush: http.NewResponseController(w)}
	said := make([]callHolder, p.choices)
	chunk := func(answer chatChoice) error {
		one := head
		one.Choices = []chatChoice{answer}
		head.PromptIDs = nil // only with the first
		return out.send(one)
	}
	begun := make([]bool, p.choices)
	choices, err := s.generate(r.Context(), p, func(q piece) error {
		answer := chatChoice{Index: q.index, Delta: &reply{}}
		if !begun[q.index] {
			answer.Delta.Role, begun[q.index] = chat.Assistant, true
		}
		text := q.text
		if len(c.schemas) > 0 {
			text = said[q.index].pass(q.text)
		}
		if q.end != nil {
			return s.endChoice(chunk, answer, text, c, head.ID, q.end, &said[q.index])
		}
		if text != "" {
			answer.Delta.Content = &text
		}
		if p.logprobs {
			answer.LogProbs = s.logProbs(q.ids, q.logps)
		}
		if p.ids {
			answer.TokenIDs = q.ids
		}
		return chunk(answer)
	})
	if err == nil && p.usage {
		last := head
		last.PromptIDs, last.Choices, last.Usage = nil, []chatChoice{}, usageOf(p, choices)
		err = out.send(last)
	}
	return out.end(err)
}

// endChoice sends what was held back, as calls or as text, and the reason.
func (s *Server) endChoice(chunk func(chatChoice) error, answer chatChoice, text string, c conversation, id string, end *choice, held *callHolder) error {
	reason := end.reason
	if len(c.schemas) > 0 {
		_, uses, err := s.read(c, end.text, id, answer.Index)
		if err != nil {
			return err
		}
		if len(uses) == 0 {
			text += held.rest()
		} else {
			reason = "tool_calls"
			for i := range uses {
				uses[i].Index = &i
			}
			answer.Delta.ToolCalls = uses
		}
	}
	if text != "" {
		answer.Delta.Content = &text
	}
	answer.Reason = &reason
	return chunk(answer)
}

// callHolder lets text pass up to the first tool call, and holds back what may be the
// beginning of one.
type callHolder struct{ held string }

const callSign = "<tool_call>"

func (h *callHolder) pass(text string) string {
	h.held += text
	if at := strings.Index(h.held, callSign); at >= 0 {
		text, h.held = h.held[:at], h.held[at:]
		return text
	}
	keep := 0
	for n := min(len(callSign)-1, len(h.held)); n > 0; n-- {
		if strings.HasSuffix(h.held, callSign[:n]) {
			keep = n
			break
		}
	}
	text, h.held = h.held[:len(h.held)-keep], h.held[len(h.held)-keep:]
	return text
}

func (h *callHolder) rest() string {
	text := h.held
	h.held = ""
	return text
}
