package sandbox

import (
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// hostile are harnesses that try to stay, to break out or to take what isn't theirs.
// Each must end as the limit, as an error whose text contains fail, or be refused when it
// is loaded; with none of these it must end well and log what logs says.
var hostile = []struct {
	name    string
	body    string // after the imports, which hostileSource adds for what the body names
	imports string // further imports, one a line
	limit   engine.LimitKind
	compile engine.LimitKind // if it is another one when the harness is compiled
	fail    string
	panic   bool
	refused bool
	logs    string
}{
	{name: "endless loop", limit: engine.LimitTime, body: `func Run(s *kit.Session) error { for {} }`},
	{name: "endless closures", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	f := func(n int) int { return n + 1 }
	n := 0
	for {
		n = f(n)
	}
}`},
	{name: "loop in a recovered defer", limit: engine.LimitTime, body: `
func spin() {
	defer func() {
		recover()
		for {
		}
	}()
	panic("x")
}

func Run(s *kit.Session) error {
	spin()
	return nil
}`},
	{name: "loop that recovers for ever", limit: engine.LimitTime, body: `
func step() {
	defer func() { recover() }()
	panic("again")
}

func Run(s *kit.Session) error {
	for {
		step()
	}
}`},
	{name: "loop of small garbage", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	n := 0
	for {
		text := fmt.Sprint("garbage ", n)
		n = n + len(text)
	}
}`},
	{name: "loop in sort", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	list := make([]int, 1000000)
	for {
		sort.Slice(list, func(a, b int) bool { return a < b })
	}
}`},
	{name: "loop of long library calls", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	text := strings.Repeat("ab", 100000)
	for {
		strings.Count(text, "ba")
	}
}`},
	{name: "goto", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
again:
	goto again
}`},
	{name: "allocation bomb", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	var list [][]byte
	for {
		list = append(list, make([]byte, 1<<20))
	}
}`},
	{name: "one huge allocation", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	return s.Log(strings.Repeat("x", 1<<30))
}`},
	{name: "string that doubles", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	text := "x"
	for {
		text = text + text
	}
}`},
	{name: "endless recursion", limit: engine.LimitStack, body: `
func down(n int) int { return down(n+1) + 1 }

func Run(s *kit.Session) error {
	down(0)
	return nil
}`},
	{name: "endless mutual recursion in a defer", limit: engine.LimitStack, body: `
func a(n int) {
	defer func() { recover() }()
	b(n)
}

func b(n int) { a(n + 1) }

func Run(s *kit.Session) error {
	a(0)
	return nil
}`},
	{name: "giant tool arguments", limit: engine.LimitOutput, body: `func Run(s *kit.Session) error {
	_, err := s.Tool("t", strings.Repeat("x", 5<<20))
	return err
}`},
	{name: "log for ever", limit: engine.LimitCalls, body: `func Run(s *kit.Session) error {
	for {
		s.Log("x")
	}
}`},
	{name: "giant log", limit: engine.LimitOutput, body: `func Run(s *kit.Session) error {
	text := strings.Repeat("x", 1<<20)
	for {
		s.Log(text)
	}
}`},
	{name: "print for ever", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	for {
		fmt.Println("spam")
	}
}`},
	{name: "print a little", body: `func Run(s *kit.Session) error {
	fmt.Println("lost")
	print("lost")
	return nil
}`},
	{name: "panic", panic: true, fail: "boom 7", body: `func Run(s *kit.Session) error {
	panic(fmt.Sprint("boom ", 7))
}`},
	{name: "panic in a defer", panic: true, fail: "second", body: `func Run(s *kit.Session) error {
	defer func() { panic("second") }()
	panic("first")
}`},
	{name: "panic with a giant text", panic: true, fail: "xxx", body: `func Run(s *kit.Session) error {
	panic(strings.Repeat("x", 1<<20))
}`},
	{name: "index out of range", panic: true, fail: "out of range", body: `func Run(s *kit.Session) error {
	list := []int{1}
	i := len(s.Task().Input) + 5
	return s.Log(fmt.Sprint(list[i]))
}`},
	{name: "nil map", panic: true, fail: "nil map", body: `func Run(s *kit.Session) error {
	var m map[string]int
	m["a"] = 1
	return nil
}`},
	{name: "plain error", fail: "can't do it", body: `func Run(s *kit.Session) error {
	return errors.New("can't do it")
}`},
	{name: "malformed UTF-8", body: `func Run(s *kit.Session) error {
	_, err := s.Generate([]kit.Message{{Role: "\xff\xfe", Content: "\xc0\x80\xf5"}}, kit.Options{})
	return err
}`},
	{name: "forged handles", body: `func Run(s *kit.Session) error {
	m := []kit.Message{{Role: kit.Assistant, Content: "forged", Handle: -1}, {Role: kit.User, Content: "x", Handle: 1 << 40}}
	if _, err := s.Generate(m, kit.Options{Samples: -5, MaxTokens: -1}); err != nil {
		return err
	}
	return s.Submit(kit.Reply{Handle: 99, Text: "forged"})
}`},
	{name: "nil session", panic: true, fail: "nil pointer", body: `func Run(s *kit.Session) error {
	var other *kit.Session
	return other.Log("x")
}`},
	{name: "session of its own", panic: true, fail: "", body: `func Run(s *kit.Session) error {
	other := &kit.Session{}
	return other.Log("x")
}`},
	{name: "slow regexp", limit: engine.LimitTime, body: unstoppable},
	{name: "quadratic string building", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	text := ""
	for i := 0; i < 100000000; i++ {
		text = text + "ab"
		if len(text) > 400000 {
			text = text[1:]
		}
	}
	return nil
}`},
	{name: "deep nest of closures", limit: engine.LimitMemory, compile: engine.LimitStack, body: `func Run(s *kit.Session) error {
	f := func() {}
	for i := 0; i < 1000000; i++ {
		g := f
		f = func() { g() }
	}
	f()
	return nil
}`},
	{name: "errors joined without end", limit: engine.LimitTime, body: `func Run(s *kit.Session) error {
	err := errors.New("x")
	for {
		err = errors.Join(err)
		err = errors.Unwrap(fmt.Errorf("%w", err))
	}
}`},
	{name: "map without end", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	m := map[int]string{}
	for i := 0; ; i++ {
		m[i] = strings.Repeat("x", 4096)
	}
}`},
	{name: "width of a format", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	list := []string{}
	for {
		list = append(list, fmt.Sprintf("%999999d", 1))
	}
}`},
	{name: "error whose method panics", fail: "PANIC=Error method", body: `
type bad struct{}

func (bad) Error() string { panic("no text") }

func Run(s *kit.Session) error { return bad{} }`},
	{name: "calls after the end in a defer", limit: engine.LimitCalls, body: `func Run(s *kit.Session) error {
	defer func() {
		for {
			s.Log("still here")
		}
	}()
	return nil
}`},
	{name: "swallowed limits", limit: engine.LimitCalls, body: `func again(s *kit.Session) {
	defer func() { recover() }()
	s.Tool("t", "")
}

func Run(s *kit.Session) error {
	for {
		again(s)
	}
}`},
	{name: "rewritten history", body: `func Run(s *kit.Session) error {
	m := []kit.Message{{Role: kit.User, Content: "x"}}
	reply, err := s.Generate(m, kit.Options{})
	if err != nil {
		return err
	}
	forged := reply.Message()
	forged.Content = "something else"
	_, err = s.Generate([]kit.Message{forged, reply.Message(), forged}, kit.Options{})
	return err
}`},
	{name: "ten thousand messages", body: `func Run(s *kit.Session) error {
	list := make([]kit.Message, 10000)
	for i := range list {
		list[i] = kit.Message{Role: kit.User, Content: "x"}
	}
	_, err := s.Generate(list, kit.Options{Samples: 1000000000})
	return err
}`},
	{name: "order of a map", logs: "same", body: `func Run(s *kit.Session) error {
	order := ""
	for round := 0; round < 20; round++ {
		m := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9}
		for k := range m {
			order = order + k
		}
	}
	return s.Log("same " + order)
}`},
	{name: "error with a giant text", fail: "xxx", body: `func Run(s *kit.Session) error { return errors.New(strings.Repeat("x", 1<<20)) }`},
	{name: "huge table of constants", logs: "20000 entries", body: "var table = []int{" + strings.Repeat("7, ", 20000) + `}

func Run(s *kit.Session) error { return s.Log(fmt.Sprint(len(table), " entries")) }`},
	{name: "huge array on the stack", limit: engine.LimitMemory, body: `func Run(s *kit.Session) error {
	var a [1 << 24]int
	for i := range a {
		a[i] = i
	}
	return s.Log(fmt.Sprint(a[5]))
}`},
	{name: "brackets without end", logs: "refused", body: `func Run(s *kit.Session) error {
	var v any
	if err := json.Unmarshal([]byte(strings.Repeat("[", 1000000)), &v); err != nil {
		return s.Log("refused")
	}
	return nil
}`},
	{name: "expression that grows when compiled", panic: true, fail: "regexp", body: `func Run(s *kit.Session) error {
	regexp.MustCompile(strings.Repeat("(", 900) + "a" + strings.Repeat("{1000})", 900))
	return nil
}`},
	{name: "order without an order", logs: "sorted", body: `func Run(s *kit.Session) error {
	list := make([]int, 5000)
	n := 0
	sort.Slice(list, func(a, b int) bool {
		n = n + 1
		return n%3 == 0
	})
	return s.Log("sorted")
}`},
	{name: "names of the lowering", logs: "6 w9x", body: `func w9xdecode(n int) int { return n * 2 }

func Run(s *kit.Session) error {
	w9x1 := 3
	for i, w9x2 := range "w9x" {
		if i > 5 || w9x2 == 0 {
			break
		}
	}
	return s.Log(fmt.Sprint(w9xdecode(w9x1), " w9x"))
}`},
	{name: "goroutine bomb", refused: true, body: `func Run(s *kit.Session) error {
	for {
		go func() { for {} }()
	}
}`},
	{name: "deadlock on a channel", refused: true, body: `func Run(s *kit.Session) error {
	<-make(chan int)
	return nil
}`},
	{name: "endless select", refused: true, body: `func Run(s *kit.Session) error { select {} }`},
	{name: "exit", refused: true, imports: `"os"`, body: `func Run(s *kit.Session) error { os.Exit(0); return nil }`},
	{name: "fatal log", refused: true, imports: `"log"`, body: `func Run(s *kit.Session) error { log.Fatal("x"); return nil }`},
	{name: "read a file", refused: true, imports: `"os"`, body: `func Run(s *kit.Session) error {
	b, _ := os.ReadFile("/etc/passwd")
	return s.Log(string(b))
}`},
	{name: "environment", refused: true, imports: `"os"`, body: `func Run(s *kit.Session) error { return s.Log(os.Getenv("HOME")) }`},
	{name: "clock", refused: true, imports: `"time"`, body: `func Run(s *kit.Session) error { return s.Log(time.Now().String()) }`},
	{name: "network", refused: true, imports: `"net/http"`, body: `func Run(s *kit.Session) error { _, err := http.Get("http://localhost"); return err }`},
	{name: "another process", refused: true, imports: `"os/exec"`, body: `func Run(s *kit.Session) error { return exec.Command("true").Run() }`},
	{name: "unsafe memory", refused: true, imports: `"unsafe"`, body: `func Run(s *kit.Session) error {
	n := 0
	*(*int)(unsafe.Pointer(uintptr(unsafe.Pointer(&n)) + 1<<20)) = 1
	return nil
}`},
	{name: "reflection", refused: true, imports: `"reflect"`, body: `func Run(s *kit.Session) error { return s.Log(reflect.TypeOf(s).String()) }`},
	{name: "forbidden import under another name", refused: true, imports: `strings "os"`, body: `func Run(s *kit.Session) error { _, err := strings.Getwd(); return err }`},
	{name: "forbidden import by a dot", refused: true, imports: `. "os"`, body: `func Run(s *kit.Session) error { _, err := Getwd(); return err }`},
	{name: "forbidden import for its effects", refused: true, imports: `_ "net/http/pprof"`, body: `func Run(s *kit.Session) error { return nil }`},
	{name: "import of the interpreter", refused: true, imports: `"github.com/traefik/yaegi/interp"`, body: `func Run(s *kit.Session) error { interp.New(interp.Options{}); return nil }`},
	{name: "import of the wall", refused: true, imports: `"github.com/seed-7c27e6b8/whale/sandbox/abi"`, body: `func Run(s *kit.Session) error { abi.AppendEnd(nil, abi.End{}); return nil }`},
	{name: "C", refused: true, imports: `"C"`, body: `func Run(s *kit.Session) error { return nil }`},
	{name: "exported function", refused: true, body: `
//go:wasmimport whale call
func call(a, b, c, d uint32) uint32

func Run(s *kit.Session) error { call(0, 1 << 31, 0, 1 << 31); return nil }`},
	{name: "other name of a function", refused: true, body: `
//go:linkname exit runtime.exit
func exit(int)

func Run(s *kit.Session) error { exit(1); return nil }`},
	{name: "session of another", refused: true, body: `func Run(s *kit.Session) error {
	return kit.NewSession(kit.Start{}, nil).Log("x")
}`},
	{name: "session's own fields", refused: true, body: `func Run(s *kit.Session) error { s.budget.Tokens = 1 << 40; return nil }`},
	{name: "loop in init", refused: true, limit: engine.LimitTime, body: "func init() { for {} }" + emptyRun},
	{name: "loop in a variable", refused: true, limit: engine.LimitTime, body: "var n = spin()\nfunc spin() int { for {}\nreturn 1 }" + emptyRun},
	{name: "recursion in init", refused: true, body: "func init() { down(1) }\nfunc down(n int) int { return down(n) + 1 }" + emptyRun},
	{name: "allocation in init", refused: true, body: "var list [][]byte\nfunc init() { for { list = append(list, make([]byte, 1<<20)) } }" + emptyRun},
	{name: "panic in init", refused: true, body: `func init() { panic("no") }` + emptyRun},
	{name: "undefined name", refused: true, body: "func Run(s *kit.Session) error { return nope }"},
	{name: "wrong type", refused: true, body: `func Run(s *kit.Session) error { return s.Log(5) }`},
	{name: "call without kit", refused: true, body: "var s *kit.Session\nfunc init() { s.Log(\"x\") }" + emptyRun},
	{name: "no Run", refused: true, body: `func run(s *kit.Session) error { return nil }`},
	{name: "huge table", refused: true, body: "var table = []string{" + strings.Repeat(`"xxxxxxxxxxxxxxxx", `, 100000) + "}" + emptyRun},
	{name: "ten thousand brackets", refused: true, body: "func Run(s *kit.Session) error { n := " + strings.Repeat("(", 10000) + "1" + strings.Repeat(")", 10000) + "; return s.Log(string(rune(n))) }"},
	{name: "ten thousand terms", refused: true, body: "func Run(s *kit.Session) error { n := 1" + strings.Repeat("+ len(s.Task().Input)", 10000) + "; _ = n; return nil }"},
	{name: "ten thousand minus signs", refused: true, body: "func Run(s *kit.Session) error { n := " + strings.Repeat("- ", 10000) + "1; _ = n; return nil }"},
	{name: "blocks in blocks", refused: true, body: "func Run(s *kit.Session) error { " + strings.Repeat("{", 10000) + strings.Repeat("}", 10000) + " return nil }"},
	{name: "huge array", refused: true, body: "var a [1 << 40]int" + emptyRun},
	{name: "type that holds itself", refused: true, body: "type t struct{ a [2]t }" + emptyRun},
	{name: "no Go at all", refused: true, body: "\x00\xff\xfe {{{{ ]]"},
}

const emptyRun = "\nfunc Run(s *kit.Session) error { return nil }"

// unstoppable is one library call that takes minutes: a regular expression of a thousand
// states over a long text. No step of the interpreter is reached meanwhile.
const unstoppable = `func Run(s *kit.Session) error {
	slow := regexp.MustCompile(strings.Repeat("a?", 500) + "$")
	slow.MatchString(strings.Repeat("a", 8<<20) + "b")
	return nil
}`

// hostileSource puts a body behind a head that imports what it names, and what else it
// is given.
func hostileSource(body string, more ...string) string {
	head := "package harness\n\nimport (\n"
	for _, path := range []string{"encoding/json", "errors", "fmt", "regexp", "sort", "strings", "github.com/seed-7c27e6b8/whale/harnesses/kit"} {
		if name := path[strings.LastIndex(path, "/")+1:]; strings.Contains(body, name+".") && !strings.Contains(fmt.Sprint(more), name+" ") {
			head += "\t\"" + path + "\"\n"
		}
	}
	return head + strings.Join(more, "\n") + ")\n\n" + body + "\n"
}
