package engine

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestServices_public(t *testing.T) {
	s := Services{Retriever: "http://user:secret@localhost:8000/retrieve?token=secret#secret", Judge: "https://localhost/v1/chat/completions",
		JudgeModel: "m", Code: "/opt/micropython.wasm"}
	got := s.Public()
	want := Services{Retriever: "http://localhost:8000/retrieve", Judge: s.Judge, JudgeModel: "m", Code: s.Code}
	if got != want {
		t.Errorf("%+v", got)
	}
	const secret, plain = "https://user:secret@host/v1?key=secret", "https://host/v1"
	all := Services{Retriever: secret, Judge: secret, Code: secret, Policy: secret + "," + secret}
	if got, want := all.Public(), (Services{Retriever: plain, Judge: plain, Code: plain, Policy: plain + "," + plain}); got != want {
		t.Errorf("%+v", got)
	}
	if got := PublicAddress("http://se cret@%zz"); strings.Contains(got, "cret") {
		t.Errorf("%s", got)
	}
}

// Other tasks make another run; another address of the same service does not, and a run of
// defaults is written as before there was a choice.
func TestConfig_choice(t *testing.T) {
	one, other := Defaults(), Defaults()
	one.Services.Retriever, one.Services.Judge = "http://a", "http://b"
	if err := one.Same(other); err != nil {
		t.Errorf("addresses: %v", err)
	}
	one.Services.JudgeModel = "m"
	if err := one.Same(other); !errors.Is(err, ErrConfig) {
		t.Errorf("another judge: %v", err)
	}
	one, other.Tasks.Test = Defaults(), 5
	if err := one.Same(other); !errors.Is(err, ErrConfig) {
		t.Errorf("other tasks: %v", err)
	}
	text, err := json.Marshal(Defaults())
	if err != nil || strings.Contains(string(text), `"tasks"`) || strings.Contains(string(text), `"services"`) {
		t.Errorf("%s %v", text, err)
	}
	for _, bad := range []TaskChoice{{Test: -2}, {Select: -1}, {Train: -1}, {CallTokens: -1}} {
		if err := bad.validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
