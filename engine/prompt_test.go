package engine

import "testing"

const promptSeed = `package harness

const (
	systemText = "You are." // said first
	nudgeText  = "a" + ("b")
	maxTurns   = (2)
)

const one = "x"

func Run(s *kit.Session) error {
	const local = "inside"
	return s.Say(systemText, local, "literal")
}
`

func TestPromptsOnly(t *testing.T) {
	change := func(old, new string) string {
		s := replaceOnce(promptSeed, old, new)
		if s == promptSeed {
			t.Fatalf("%q is not in the seed", old)
		}
		return s
	}
	for name, c := range map[string]struct {
		source string
		rule   string // "" = allowed
		line   int
	}{
		"nothing": {promptSeed, "", 0},
		"value":   {change(`"You are."`, "`You\nare\nnot.`"), "", 0},
		"value to a sum": {change(`"x"`, `"x" + "y" +
	"z"`), "", 0},
		"sum to a value":    {change(`"a" + ("b")`, `"c"`), "", 0},
		"comment, layout":   {change("// said first", "/* a */\n"), "", 0},
		"limit":             {change("maxTurns   = (2)", "maxTurns   = (3)"), "prompt-only", 6},
		"text to number":    {change(`one = "x"`, "one = 1"), "prompt-only", 9},
		"a computed value":  {change(`one = "x"`, `one = "x" + systemText`), "prompt-only", 9},
		"name":              {change("const one", "const two"), "prompt-only", 9},
		"local constant":    {change(`"inside"`, `"outside"`), "prompt-only", 12},
		"literal":           {change(`"literal"`, `"other"`), "prompt-only", 13},
		"new constant":      {change(`const one`, "const two = \"x\"\nconst one"), "prompt-only", 9},
		"var for const":     {change(`const one`, "var one"), "prompt-only", 9},
		"more at the end":   {promptSeed + "func init() {}\n", "prompt-only", 15},
		"less at the end":   {promptSeed[:len(promptSeed)-3], "parse", 13},
		"an earlier end":    {"package harness\n", "prompt-only", 0},
		"code in a comment": {change("return s.Say", "/* return */ s.Say"), "prompt-only", 13},
		"does not parse":    {"package harness\nfunc {", "parse", 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := PromptsOnly(promptSeed, c.source)
			if (got == nil) != (c.rule == "") || got != nil && (got.Rule != c.rule || got.Line != c.line) {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := PromptsOnly("hint=0", promptSeed); got == nil {
		t.Error("a seed that is not Go allows anything")
	}
}

func replaceOnce(s, old, new string) string {
	for i := 0; i+len(old) <= len(s); i++ {
		if s[i:i+len(old)] == old {
			return s[:i] + new + s[i+len(old):]
		}
	}
	return s
}

// A source is its own prompt variant, and being one is symmetric.
func FuzzPromptsOnly(f *testing.F) {
	f.Add(promptSeed, promptSeed)
	f.Add("package a\nconst b = \"\"", "package a\nconst b = (\"x\"+`y`)")
	f.Add("package a;const(\n//line x:1\nc,d=\"\",1\n)", "package a")
	f.Fuzz(func(t *testing.T, a, b string) {
		own := PromptsOnly(a, a)
		ab, ba := PromptsOnly(a, b), PromptsOnly(b, a)
		if own != nil && ab == nil {
			t.Fatalf("%q allows %q but not itself", a, b)
		}
		if (ab == nil) != (ba == nil) {
			t.Fatalf("%v one way, %v the other", ab, ba)
		}
	})
}
