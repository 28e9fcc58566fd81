package abi

// Start is what a run begins with: the public task and the budget (counts, 0 = none).
type Start struct {
	Domain, Input        string
	Tools                []ToolSpec
	Tokens, Turns, Calls int
}

// ToolSpec describes a tool to the harness.
type ToolSpec struct {
	Name, Description, Schema string
}

// AppendStart adds the encoded form of a start to b.
func AppendStart(b []byte, s Start) []byte {
	b = appendString(appendString(b, s.Domain), s.Input)
	b = appendCount(b, len(s.Tools))
	for _, t := range s.Tools {
		b = appendString(appendString(appendString(b, t.Name), t.Description), t.Schema)
	}
	return appendInt(appendInt(appendInt(b, s.Tokens), s.Turns), s.Calls)
}

// DecodeStart reads what AppendStart wrote.
func DecodeStart(b []byte) (Start, error) {
	d := decoder{b: b}
	s := Start{Domain: d.string(), Input: d.string()}
	if n := d.count(3); n > 0 {
		s.Tools = make([]ToolSpec, n)
	}
	for i := range s.Tools {
		s.Tools[i] = ToolSpec{Name: d.string(), Description: d.string(), Schema: d.string()}
	}
	s.Tokens, s.Turns, s.Calls = d.int(), d.int(), d.int()
	return s, d.end()
}

// RequestKind says which method of the host a harness calls.
type RequestKind byte

// The methods of the host.
const (
	Generate RequestKind = 1 + iota
	Tool
	Note
)

// Request is one call of a harness. Which fields count depends on the kind.
type Request struct {
	Kind RequestKind
	// Generate
	Messages           []Message
	Samples, MaxTokens int
	Tools              bool
	// Tool
	Name, Args string
	// Note
	Log    string
	Submit int
}

// Message is one entry of a conversation.
type Message struct {
	Role, Content string
	Handle        int
}

// AppendRequest adds the encoded form of a request to b.
func AppendRequest(b []byte, r Request) []byte {
	b = append(b, byte(r.Kind))
	switch r.Kind {
	case Generate:
		b = appendCount(b, len(r.Messages))
		for _, m := range r.Messages {
			b = appendInt(appendString(appendString(b, m.Role), m.Content), m.Handle)
		}
		b = appendInt(appendInt(appendInt(b, r.Samples), r.MaxTokens), bit(r.Tools))
	case Tool:
		b = appendString(appendString(b, r.Name), r.Args)
	case Note:
		b = appendInt(appendString(b, r.Log), r.Submit)
	}
	return b
}

// DecodeRequest reads what AppendRequest wrote.
func DecodeRequest(b []byte) (Request, error) {
	d := decoder{b: b}
	r := Request{Kind: RequestKind(d.byte())}
	switch r.Kind {
	case Generate:
		if n := d.count(3); n > 0 {
			r.Messages = make([]Message, n)
		}
		for i := range r.Messages {
			r.Messages[i] = Message{Role: d.string(), Content: d.string(), Handle: d.int()}
		}
		r.Samples, r.MaxTokens, r.Tools = d.int(), d.int(), d.int() != 0
	case Tool:
		r.Name, r.Args = d.string(), d.string()
	case Note:
		r.Log, r.Submit = d.string(), d.int()
	default:
		d.fail("kind of request")
	}
	return r, d.end()
}

// Status says how a call or a run ended.
type Status byte

// How a call or a run ended. Budget, BadTool and BadContext are the kit's sentinels;
// Error and Panic end runs only.
const (
	OK Status = iota
	Budget
	BadTool
	BadContext
	Error
	Panic
)

// Answer is what the host gives back for a request.
type Answer struct {
	Status  Status
	Text    string // a tool's result, or more about a status that isn't OK
	Replies []Reply
}

// Reply is one sampled text.
type Reply struct {
	Handle int
	Text   string
	Stop   string
	Tokens int
}

// AppendAnswer adds the encoded form of an answer to b.
func AppendAnswer(b []byte, a Answer) []byte {
	b = appendString(append(b, byte(a.Status)), a.Text)
	b = appendCount(b, len(a.Replies))
	for _, r := range a.Replies {
		b = appendInt(b, r.Handle)
		b = appendString(appendString(b, r.Text), r.Stop)
		b = appendInt(b, r.Tokens)
	}
	return b
}

// DecodeAnswer reads what AppendAnswer wrote.
func DecodeAnswer(b []byte) (Answer, error) {
	d := decoder{b: b}
	a := Answer{Status: Status(d.byte()), Text: d.string()}
	if n := d.count(4); n > 0 {
		a.Replies = make([]Reply, n)
	}
	for i := range a.Replies {
		a.Replies[i] = Reply{Handle: d.int(), Text: d.string(), Stop: d.string(), Tokens: d.int()}
	}
	return a, d.end()
}

// End is how a run ended inside the guest: OK, one of the sentinels, Error or Panic.
type End struct {
	Status Status
	Text   string
}

// AppendEnd adds the encoded form of an end to b.
func AppendEnd(b []byte, e End) []byte { return appendString(append(b, byte(e.Status)), e.Text) }

// DecodeEnd reads what AppendEnd wrote.
func DecodeEnd(b []byte) (End, error) {
	d := decoder{b: b}
	e := End{Status: Status(d.byte()), Text: d.string()}
	return e, d.end()
}

// Refusal is why a source was not loaded: a position (1-based, 0 = unknown), the check
// that refused and its reason. An empty Rule means that the source was loaded.
type Refusal struct {
	Line, Column       int
	Rule, Reason, Hint string
}

// AppendRefusal adds the encoded form of a refusal to b.
func AppendRefusal(b []byte, r Refusal) []byte {
	b = appendInt(appendInt(b, r.Line), r.Column)
	return appendString(appendString(appendString(b, r.Rule), r.Reason), r.Hint)
}

// DecodeRefusal reads what AppendRefusal wrote.
func DecodeRefusal(b []byte) (Refusal, error) {
	d := decoder{b: b}
	r := Refusal{Line: d.int(), Column: d.int(), Rule: d.string(), Reason: d.string(), Hint: d.string()}
	return r, d.end()
}
