package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shared is where the measured programs are, seen from this folder.
const shared = "../../../shared/spec/interpreter"

// program is a harness that prints what it computes.
type program struct {
	name   string
	source string
}

// usual are the names of packages that a program may use without importing them: package
// name to path. Those that a harness may not import are there too, so that it is refused
// for that.
var usual = map[string]string{"fmt": "fmt", "strings": "strings", "strconv": "strconv", "regexp": "regexp",
	"sort": "sort", "errors": "errors", "math": "math", "json": "encoding/json", "os": "os", "time": "time",
	"unicode": "unicode", "utf8": "unicode/utf8", "bytes": "bytes", "bufio": "bufio", "template": "text/template",
	"slices": "slices", "maps": "maps", "cmp": "cmp", "rand": "math/rand", "sync": "sync", "bits": "math/bits",
	"hex": "encoding/hex", "base64": "encoding/base64", "list": "container/list", "heap": "container/heap",
	"context": "context", "io": "io"}

var (
	heading   = regexp.MustCompile(`(?m)^-- (\w+) --$`)
	text      = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|`[^`]*`|//[^\n]*")
	qualifier = regexp.MustCompile(`(^|[^\w.])(\w+)\.`)
	runName   = regexp.MustCompile(`\bRun\b`)
)

// read takes a file of programs apart.
func read(t testing.TB, file string) (list []program) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names := heading.FindAllStringSubmatchIndex(string(b), -1)
	for i, at := range names {
		end := len(b)
		if i+1 < len(names) {
			end = names[i+1][0]
		}
		name, body := string(b[at[2]:at[3]]), strings.TrimSpace(string(b[at[1]:end]))
		if !strings.Contains(body, "func main()") {
			declarations, statements, both := strings.Cut("\n"+body, "\n---\n")
			if !both {
				declarations, statements = "", body
			}
			body = declarations + "\nfunc main() {\n\t" + strings.ReplaceAll(strings.TrimSpace(statements), "\n", "\n\t") + "\n}\n"
		}
		list = append(list, program{name, body})
	}
	return list
}

// readShared gives the programs of files in the shared folder; none where it is missing.
func readShared(t testing.TB, pattern string) (list []program) {
	files, err := filepath.Glob(filepath.Join(shared, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Logf("no %s in %s: only the programs of testdata", pattern, shared)
	}
	for _, f := range files {
		list = append(list, read(t, f)...)
	}
	return list
}

// harness makes a program of package main one of package harness.
func harness(p program) program {
	body := runName.ReplaceAllString(p.source, "Run0")
	imports := map[string]bool{"github.com/seed-7c27e6b8/whale/harnesses/kit": true}
	for _, m := range qualifier.FindAllStringSubmatch(text.ReplaceAllString(body, " "), -1) {
		if path := usual[m[2]]; path != "" {
			imports[path] = true
		}
	}
	var head strings.Builder
	head.WriteString("package harness\n\nimport (\n")
	for _, path := range sorted(imports) {
		fmt.Fprintf(&head, "\t%q\n", path)
	}
	head.WriteString(")\n\nfunc Run(s *kit.Session) error {\n\tmain()\n\treturn nil\n}\n\n")
	return program{p.name, head.String() + strings.TrimSpace(body) + "\n"}
}

// variants run a program's main three times in a loop, and in a closure called twice.
// Most faults of the interpreter need a second pass through a line. A program whose main
// can't be moved has none.
func variants(p program) (list []program) {
	const head = "\nfunc main() {"
	at := strings.Index("\n"+p.source, head)
	if at < 0 {
		return nil
	}
	before, body := ("\n" + p.source)[:at], strings.TrimRight(("\n" + p.source)[at+len(head):], " \t\n")
	if strings.Contains(body, "\nfunc ") || strings.Contains(body, "\ntype ") || strings.Contains(body, "\nvar ") ||
		strings.Contains(body, "\nconst ") || strings.Contains(body, "goto ") || !strings.HasSuffix(body, "}") {
		return nil
	}
	body = strings.TrimSuffix(body, "}")
	return []program{
		{p.name + "_loop", before + head + "\n\tfor rep9 := 0; rep9 < 3; rep9++ {\n" + body + "\n\t}\n}\n"},
		{p.name + "_closure", before + head + "\n\tbody9 := func() {\n" + body + "\n\t}\n\tbody9()\n\tbody9()\n}\n"},
	}
}
