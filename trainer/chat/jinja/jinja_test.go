package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden reads a file of testdata/chat into v.
func golden(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "chat", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

type snippet struct {
	Source string
	Text   *string
	Error  string
}

func snippets(t testing.TB) (*Dict, []snippet) {
	t.Helper()
	var file struct {
		Variables json.RawMessage
		Cases     []snippet
	}
	golden(t, "snippets.golden.json", &file)
	variables, err := ParseJSON(file.Variables)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 70 {
		t.Fatalf("%d snippets", len(file.Cases))
	}
	return variables.(*Dict), file.Cases
}

func render(source string, variables *Dict) (string, error) {
	template, err := Compile(source)
	if err != nil {
		return "", err
	}
	return template.Render(variables)
}

// Ensure that every snippet renders to the text of the reference library, or
// fails where it fails there.
func TestSnippetsAsReference(t *testing.T) {
	variables, cases := snippets(t)
	for _, c := range cases {
		got, err := render(c.Source, variables)
		switch {
		case c.Text == nil && err == nil:
			t.Errorf("%q\n rendered %q, the reference fails: %s", c.Source, got, c.Error)
		case c.Text == nil && !errors.Is(err, ErrTemplate) && !errors.Is(err, ErrUnsupported):
			t.Errorf("%q: untyped error %v", c.Source, err)
		case c.Text != nil && err != nil:
			t.Errorf("%q\n%v\nwant %q", c.Source, err, *c.Text)
		case c.Text != nil && got != *c.Text:
			t.Errorf("%q\n got %q\nwant %q", c.Source, got, *c.Text)
		}
	}
}

// Ensure that whole conversations render as in the reference library.
func TestChatsAsReference(t *testing.T) {
	var cases []struct {
		Template, Chat  string
		Messages, Tools json.RawMessage
		Prompt          bool
		Text            *string
		Error           string
	}
	golden(t, "chats.golden.json", &cases)
	for _, c := range cases {
		source, err := os.ReadFile(filepath.Join("..", "..", "testdata", "chat", c.Template+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		messages, err := ParseJSON(c.Messages)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := ParseJSON(c.Tools)
		if err != nil {
			t.Fatal(err)
		}
		variables := NewDict().Set("messages", messages).Set("tools", tools).Set("add_generation_prompt", c.Prompt).
			Set("bos_token", "<s>").Set("eos_token", "</s>")
		got, err := render(string(source), variables)
		var raised *RaisedError
		switch {
		case c.Text == nil && (!errors.As(err, &raised) || raised.Message != c.Error):
			t.Errorf("%s %s: %v, want %s", c.Template, c.Chat, err, c.Error)
		case c.Text != nil && (err != nil || got != *c.Text):
			t.Errorf("%s %s, tools %v, prompt %v: %v\n got %q\nwant %q", c.Template, c.Chat, tools != nil, c.Prompt, err, got, *c.Text)
		}
	}
}

// Ensure that what is not done here is refused by name when a template is
// compiled, even where it would never be reached.
func TestRefusesByName(t *testing.T) {
	cases := []struct {
		source string
		kind   error
		says   string
	}{
		{"{% if false %}{% include 'x' %}{% endif %}", ErrUnsupported, `statement "include"`},
		{"{% import 'x' as y %}", ErrUnsupported, `"import"`},
		{"{% extends 'x' %}", ErrUnsupported, `"extends"`},
		{"{% call f() %}{% endcall %}", ErrUnsupported, `"call"`},
		{"{% filter upper %}x{% endfilter %}", ErrUnsupported, `"filter"`},
		{"{% set x | upper %}x{% endset %}", ErrUnsupported, "set block"},
		{"{% for x in y recursive %}{% endfor %}", ErrUnsupported, "recursive"},
		{"{{ x if false else y | urlize }}", ErrUnsupported, `filter "urlize"`},
		{"{{ x is sameas y }}", ErrUnsupported, `test "sameas"`},
		{"{{ f(*x) }}", ErrUnsupported, "* arguments"},
		{"{{ 99999999999999999999 }}", ErrUnsupported, "99999999999999999999"},
		{"{{ x", ErrTemplate, "without }}"},
		{"{% if x %}", ErrTemplate, "if without endif"},
		{"a\n\n{% for x in y %}{% endif %}", ErrTemplate, "line 3"},
		{"{% endif %}", ErrTemplate, "endif without its begin"},
		{"{% break %}", ErrTemplate, "outside of a loop"},
		{"{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}", ErrTemplate, "outside of a loop"},
		{"{# x", ErrTemplate, "comment"},
		{"{% raw %}x", ErrTemplate, "endraw"},
		{"{{ 'x }}", ErrTemplate, "text without end"},
		{"{{ x y }}", ErrTemplate, `"y"`},
		{"{{ }}", ErrTemplate, "ends too early"},
		{"{{ $ }}", ErrTemplate, "'$'"},
		{"{{ a[1 2] }}", ErrTemplate, `"2"`},
		{"{{ f(a=1, 2) }}", ErrTemplate, "after a named"},
		{"{% %}", ErrTemplate, "empty block"},
		{"{% macro f(a=1, b) %}{% endmacro %}", ErrTemplate, "no default"},
		{"{% set if = 1 %}", ErrTemplate, `"if"`},
		{"{{ " + strings.Repeat("(", 1000) + " }}", ErrTemplate, "nested deeper"},
		{"{{ " + strings.Repeat("not ", 1000) + "x }}", ErrLimit, "nested deeper"},
		{"{{ " + strings.Repeat("- ", 1000) + "x }}", ErrLimit, "nested deeper"},
		{strings.Repeat("{% if x %}", 1000), ErrLimit, "nested deeper"},
		{strings.Repeat("x", maxSource+1), ErrLimit, "bytes"},
	}
	for _, c := range cases {
		if _, err := Compile(c.source); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80q: error %v, want %v naming %q", c.source, err, c.kind, c.says)
		}
	}
}

// Ensure that a hostile template ends with an error, soon.
func TestLimits(t *testing.T) {
	for _, source := range []string{
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}",
		"{% for i in range(10000000) %}{% endfor %}",
		"{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}{% endfor %}{% endfor %}{% endfor %}",
		"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"{{ 'x' * 99999999999 }}", "{{ ('x' * 9999999).replace('x', 'y' * 9999999) }}",
		"{% for i in range(999999) %}{{ 'x' * 999 }}{% endfor %}",
	} {
		if _, err := render(source, NewDict()); !errors.Is(err, ErrLimit) {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// Ensure that refusals at run time name what was asked for.
func TestRefusesAtRunTime(t *testing.T) {
	for source, says := range map[string]string{
		"{{ 'a'.format(1) }}":                    "method format of a str",
		"{{ [1].append(2) }}":                    "method append of a list",
		"{{ {}.update() }}":                      "method update of a dict",
		"{{ strftime_now('%Y') }}":               "strftime_now",
		"{{ 'a'.nosuch() }}":                     "str.nosuch",
		"{{ '%s' % 1 }}":                         "str % int",
		"{{ {1: 2} }}":                           "no text",
		"{{ 9223372036854775807 + 1 }}":          "9223372036854775807 + 1",
		"{{ (-9223372036854775807 - 1) * -1 }}":  "* -1",
		"{{ [1] | map('nosuch') | list }}":       `"nosuch"`,
		"{{ [1] | select('nosuch') | list }}":    `"nosuch"`,
		"{{ range }}":                            "builtin",
		"{{ {'a': 1} | dictsort(by='value') }}":  "value",
		"{{ [1] | tojson(indent=0) }}":           "indent 0",
		"{{ 2.5 | round(1, 'floor') }}":          "method",
		"{{ ' a b c '.rsplit(none, 1) | list }}": "rsplit",
	} {
		if _, err := render(source, NewDict()); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one naming %s", source, err, says)
		}
	}
}

// Ensure that JSON keeps order and numbers, both ways.
func TestJSON(t *testing.T) {
	const text = `{"b": 1, "a": [1.0, 2.5e-07, 1e+20, true, null, "é<&\"\\\n\u0001"], "": {}}`
	v, err := ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := JSON(v); err != nil || again != text {
		t.Errorf("%s, %v", again, err)
	}
	for _, bad := range []string{"", "{", "[1,]", "1 2", `{"a":1}}`, "1e999", strings.Repeat("[", 1000)} {
		if _, err := ParseJSON([]byte(bad)); err == nil {
			t.Errorf("%.20q was read", bad)
		}
	}
	if _, err := JSON(undefined{"x"}); !errors.Is(err, ErrTemplate) {
		t.Errorf("undefined as JSON: %v", err)
	}
}

// FuzzRender: any template compiles and renders, or fails with a typed error
// that is no fault of this package.
func FuzzRender(f *testing.F) {
	variables, cases := snippets(f)
	for _, c := range cases {
		f.Add(c.Source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		_, err := render(source, variables)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrTemplate) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrLimit) || strings.Contains(err.Error(), "BUG") {
			t.Fatalf("%q: %v", source, err)
		}
	})
}
