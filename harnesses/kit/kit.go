// Package kit is all that a harness may import beside a dozen standard packages:
// the session it holds while it works on one task.
//
// A harness is one Go package, `package harness`, with
//
//	func Run(s *kit.Session) error
//
// It owns the control flow: what enters the context, which tools are called, how
// replies are read, what is tried again, when to stop. It does not own the truth:
// the reference answer is never here, the sampling temperature is not here, and the
// verifier reads what the model wrote, not what the harness claims.
//
// The same source runs natively (go test, a debugger, package kittest as the model)
// and in the sandbox, where Host is the engine on the other side of the wall.
//
// kit does not know what a domain is, how a model works or how it is sandboxed.
package kit

// Roles of a message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Message is one entry of a conversation. A harness writes system, user and tool
// messages itself and gets assistant messages from Reply.Message; an assistant message
// whose Content was changed by the harness is treated as foreign text, not as something
// that the model wrote.
type Message struct {
	Role    string
	Content string
	// Handle names the reply that this message repeats unchanged; 0 = none.
	Handle int
}

// Options limit one call of Generate. Zero values mean the engine's own limits.
type Options struct {
	Samples   int // independent samples of the same context, at least 1
	MaxTokens int // most tokens sampled per sample
	// Tools offers the task's tools to the model in the form that it was trained on, before
	// the first message; ErrContext when its chat format has none. Its calls are text in the
	// reply. Without it a harness tells of the tools in its own words.
	Tools bool
}

// Reply is one text that the model wrote.
type Reply struct {
	Handle int    // names this reply in the session; never 0
	Text   string // without control tokens
	// Stop says why the model stopped: StopEnd (it ended its turn) or StopLength
	// (a limit cut it).
	Stop string
	// Tokens is how many tokens were sampled, the stop token included.
	Tokens int
	// Others holds the further samples when Options.Samples > 1.
	Others []Reply
}

// Why a reply ended.
const (
	StopEnd    = "end"
	StopLength = "length"
)

// Message is the reply as an entry for the next context.
func (r Reply) Message() Message {
	return Message{Role: Assistant, Content: r.Text, Handle: r.Handle}
}

// Budget is what the session may still spend.
type Budget struct {
	Tokens int // assistant tokens
	Turns  int // calls of Generate
	Tools  int // calls of Tool
}

// ToolSpec describes a tool of the task's domain.
type ToolSpec struct {
	Name        string
	Description string
	// Schema is the JSON schema of the arguments object.
	Schema string
}

// Task is the public part of a task.
type Task struct {
	Domain string
	Input  string // the question, as it is asked
}

// Host is the other side of a session: the engine, through the sandbox's wall, or a
// scripted model in a test.
type Host interface {
	// Generate samples replies to a context; len = max(1, options.Samples).
	Generate(messages []Message, options Options) ([]Reply, error)
	// Tool runs one tool with a JSON object of arguments.
	Tool(name, args string) (string, error)
	// Note passes on what needs no answer: a log line or the choice of a reply.
	Note(n Note) error
}

// Note is a one-way message to the host: a log line, or the reply submitted.
type Note struct {
	Log    string
	Submit int // handle of the reply submitted; 0 = this is a log line
}

// Start is what a session begins with.
type Start struct {
	Task   Task
	Tools  []ToolSpec
	Budget Budget
}
