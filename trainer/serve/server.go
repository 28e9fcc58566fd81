package serve

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/trainer/chat"
	"github.com/seed-7c27e6b8/whale/trainer/tokenizer"
)

// Model is what a server needs of a trainer.
type Model struct {
	Name   string // what clients call it
	Policy Policy
	Chat   chat.Format
	Tokens *tokenizer.Tokenizer
	// Context is the longest sequence, prompt and answer together.
	Context int
}

// Policy generates; trainer.Policy does.
type Policy interface {
	// Stream samples a completion and tells each id as it is drawn; each must not block.
	Stream(ctx context.Context, r engine.Request, each func(id int32, logp float32)) (engine.Completion, error)
	Weights() engine.WeightsID
}

// Limits of one request.
const (
	maxBody    = 8 << 20 // bytes
	maxChoices = 128
	maxStops   = 16
	maxTools   = 128
	maxTokens  = 1 << 20 // asked for; the context bounds what comes
)

// Server answers requests about one model.
type Server struct {
	model Model
	key   string
	began int64
}

// New makes a server. A key that is not empty must come as a bearer token.
func New(m Model, key string) *Server { return &Server{model: m, key: key, began: time.Now().Unix()} }

// Listen serves on an address until the context ends, and answers with the address it is
// bound to. wait is closed when the last answer has left.
func (s *Server) Listen(ctx context.Context, address string) (at net.Addr, wait <-chan struct{}, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("serve: %w", err)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	}()
	go server.Serve(listener) // ends with ErrServerClosed
	return listener.Addr(), done, nil
}

// Handler answers all paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { send(w, struct{}{}) })
	mux.HandleFunc("GET /v1/models", s.guarded(s.models))
	mux.HandleFunc("GET /v1/models/{model}", s.guarded(s.models))
	mux.HandleFunc("POST /v1/chat/completions", s.guarded(s.chat))
	mux.HandleFunc("POST /v1/completions", s.guarded(s.complete))
	mux.HandleFunc("POST /tokenize", s.guarded(s.tokenize))
	return mux
}

// guarded lets requests with the key pass and turns errors into the protocol's form.
func (s *Server) guarded(answer func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.key != "" && subtle.ConstantTimeCompare([]byte(bearer), []byte(s.key)) != 1 {
			fail(w, &refusal{http.StatusUnauthorized, "invalid_api_key", "", "the key is missing or wrong"})
			return
		}
		if err := answer(w, r); err != nil {
			fail(w, err)
		}
	}
}

// refusal is a request that is not answered, in the protocol's words.
type refusal struct {
	status int
	code   string
	param  string // the field at fault; empty = none
	text   string
}

// Error is the text.
func (r *refusal) Error() string { return r.text }

func bad(param, format string, a ...any) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_value", param, fmt.Sprintf(format, a...)}
}

// asRefusal gives every error its place in the protocol.
func asRefusal(err error) *refusal {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, engine.ErrContext):
		return &refusal{http.StatusBadRequest, "context_length_exceeded", "messages", err.Error()}
	case errors.Is(err, chat.ErrMessage):
		return bad("messages", "%v", err)
	case errors.Is(err, context.Canceled):
		return &refusal{499, "cancelled", "", "the client left"}
	}
	return &refusal{http.StatusInternalServerError, "server_error", "", err.Error()}
}

type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

func bodyOf(r *refusal) (b errorBody) {
	b.Error.Message, b.Error.Code, b.Error.Type = r.text, r.code, "invalid_request_error"
	if r.status >= 500 {
		b.Error.Type = "server_error"
	}
	if r.param != "" {
		b.Error.Param = &r.param
	}
	return b
}

func fail(w http.ResponseWriter, err error) {
	r := asRefusal(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	json.NewEncoder(w).Encode(bodyOf(r)) // the client is gone if this fails
}

// send writes an answer; a client that is gone gets none.
func send(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text) // the client is gone if this fails
	return nil
}

// receive reads a request's body strictly as JSON of a bounded size.
func receive(w http.ResponseWriter, r *http.Request, v any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	if err := decoder.Decode(v); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return &refusal{http.StatusRequestEntityTooLarge, "request_too_large", "", fmt.Sprintf("a request has at most %d bytes", maxBody)}
		}
		return bad("", "the body is not the JSON that this call takes: %v", err)
	}
	return nil
}

type modelEntry struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// Beyond the protocol, in names that other servers use too.
	MaxModelLen int    `json:"max_model_len"`
	Root        string `json:"root"` // weights id
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) error {
	m := modelEntry{s.model.Name, "model", s.began, "whale", s.model.Context, string(s.model.Policy.Weights())}
	if asked := r.PathValue("model"); asked != "" {
		if asked != m.ID {
			return s.unknown(asked)
		}
		return send(w, m)
	}
	return send(w, struct {
		Object string       `json:"object"`
		Data   []modelEntry `json:"data"`
	}{"list", []modelEntry{m}})
}

// unknown refuses a model that is not this one. An empty name means it.
func (s *Server) unknown(asked string) error {
	if asked == "" || asked == s.model.Name {
		return nil
	}
	return &refusal{http.StatusNotFound, "model_not_found", "model", fmt.Sprintf("model %q: this server has %q", asked, s.model.Name)}
}

// newID is a random name for an answer.
func newID(kind string) string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s-%x", kind, b)
}

// anySeed is for requests that bring none.
func anySeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Model    string    `json:"model"`
		Prompt   *string   `json:"prompt"`
		Messages []message `json:"messages"`
		Tools    []tool    `json:"tools"`
	}
	if err := receive(w, r, &q); err != nil {
		return err
	}
	if err := s.unknown(q.Model); err != nil {
		return err
	}
	var ids []int32
	if q.Prompt != nil {
		ids = s.model.Tokens.Encode(*q.Prompt)
	} else {
		c, err := s.conversation(q.Messages, q.Tools)
		if err != nil {
			return err
		}
		ids = c.prompt
	}
	return send(w, struct {
		Count       int     `json:"count"`
		MaxModelLen int     `json:"max_model_len"`
		Tokens      []int32 `json:"tokens"`
	}{len(ids), s.model.Context, ids})
}
