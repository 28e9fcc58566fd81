package builtin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"strings"
)

const kitPath = "github.com/seed-7c27e6b8/whale/harnesses/kit"

// kitDeclarations are the declarations of package kit that a harness can use, without
// bodies. A test holds them against the package itself.
const kitDeclarations = `package kit

const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"

	StopEnd    = "end"
	StopLength = "length"
)

type Message struct {
	Role    string
	Content string
	Handle  int
}

type Options struct {
	Samples   int
	MaxTokens int
	Tools     bool
}

type Reply struct {
	Handle int
	Text   string
	Stop   string
	Tokens int
	Others []Reply
}

func (r Reply) Message() Message

type Budget struct {
	Tokens int
	Turns  int
	Tools  int
}

type ToolSpec struct {
	Name        string
	Description string
	Schema      string
}

type Task struct {
	Domain string
	Input  string
}

type Session struct{ hidden int }

func (s *Session) Task() Task
func (s *Session) Tools() []ToolSpec
func (s *Session) Remaining() Budget
func (s *Session) Generate(messages []Message, options Options) (Reply, error)
func (s *Session) Tool(name, args string) (string, error)
func (s *Session) Submit(r Reply) error
func (s *Session) Log(text string) error

func Args(pairs ...string) string

var (
	ErrBudget  error
	ErrTool    error
	ErrContext error
)
`

// stubs imports kit from its declarations and every other package as an empty one: the
// standard library's declarations are not at hand at run time. Faults that only follow
// from that are filtered by ownFaults.
type stubs struct{ kit *types.Package }

var _ types.Importer = stubs{}

func newStubs() stubs {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "kit.go", kitDeclarations, parser.SkipObjectResolution)
	if err != nil {
		panic("BUG: builtin: kit declarations: " + err.Error())
	}
	conf := types.Config{IgnoreFuncBodies: true}
	kit, err := conf.Check(kitPath, fset, []*ast.File{file}, nil)
	if err != nil {
		panic("BUG: builtin: kit declarations: " + err.Error())
	}
	return stubs{kit: kit}
}

// Import implements types.Importer.
func (s stubs) Import(name string) (*types.Package, error) {
	if name == kitPath {
		return s.kit, nil
	}
	empty := types.NewPackage(name, path.Base(name))
	empty.MarkComplete()
	return empty, nil
}

// ownFaults drops the type errors that exist only because standard packages are empty
// here.
func ownFaults(faults []string, imports []*ast.ImportSpec) []string {
	var own []string
	for _, fault := range faults {
		missing := false
		for _, spec := range imports {
			name := importName(spec)
			if name != "kit" && strings.HasPrefix(fault, "undefined: "+name+".") {
				missing = true
			}
		}
		if !missing {
			own = append(own, fault)
		}
	}
	return own
}
