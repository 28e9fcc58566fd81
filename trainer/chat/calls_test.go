package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var addTool = [][]byte{[]byte(`{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{
"a":{"type":"number"},"b":{"type":"integer"},"ok":{"type":"boolean"},"list":{"type":"array"},"o":{"type":"object"},"s":{"type":"string"},"any":{}}}}}`)}

func TestParseCalls(t *testing.T) {
	call := func(body string) string { return "<tool_call>\n" + body + "\n</tool_call>" }
	cases := []struct {
		name    string
		style   CallStyle
		reply   string
		content string
		calls   []Call
	}{
		{"no style", NoCalls, call(`{"name":"add"}`), call(`{"name":"add"}`), nil},
		{"plain reply", JSONCalls, "seven", "seven", nil},
		{"one", JSONCalls, "Let me see.\n" + call(`{"name": "add", "arguments": {"b": 2, "a": 1.0}}`), "Let me see.\n", []Call{{Name: "add", Arguments: `{"b": 2, "a": 1.0}`}}},
		{"two after thoughts", JSONCalls, "<think>\n<tool_call>x</tool_call></think>\n\n" + call(`{"name":"f","arguments":{}}`) + "\n" + call(`{"name":"g","arguments":{"x":"é<"}}`), "",
			[]Call{{Name: "f", Arguments: `{}`}, {Name: "g", Arguments: `{"x": "é<"}`}}},
		{"not closed", JSONCalls, `<tool_call>{"name":"f","arguments":{}}`, "", nil},
		{"no JSON", JSONCalls, call(`{name}`), "", []Call{{Bad: "no JSON: invalid character 'n'"}}},
		{"a list", JSONCalls, call(`[]`), "", []Call{{Bad: "no JSON object"}}},
		{"no name", JSONCalls, call(`{"arguments":{}}`), "", []Call{{Bad: "no name"}}},
		{"arguments as text", JSONCalls, call(`{"name":"f","arguments":"{}"}`), "", []Call{{Name: "f", Bad: "arguments are no object"}}},
		{"xml", XMLCalls, "hm\n</think>\n\nOk.\n\n" + call("<function=add>\n<parameter=a>\n1.5\n</parameter>\n<parameter=b>\n 2\n</parameter>\n<parameter=s>\n\nx\ny\n\n</parameter>\n</function>"), "Ok.\n\n",
			[]Call{{Name: "add", Arguments: `{"a": 1.5, "b": 2, "s": "\nx\ny\n"}`}}},
		{"xml types", XMLCalls, call("<function=add><parameter=a>3.0</parameter><parameter=b>x</parameter><parameter=ok>True</parameter><parameter=list>[1, {\"z\": 1, \"y\": 2}]</parameter><parameter=o>{bad</parameter><parameter=s>NULL</parameter><parameter=any>1</parameter><parameter=new>1</parameter></function>"), "",
			[]Call{{Name: "add", Arguments: `{"a": 3, "b": "x", "ok": true, "list": [1, {"z": 1, "y": 2}], "o": "{bad", "s": null, "any": "1", "new": "1"}`}}},
		{"xml cut off", XMLCalls, "<tool_call>\n<function=add>\n<parameter=a>\n1\n<parameter=b>\n2", "", []Call{{Name: "add", Arguments: `{"a": 1, "b": 2}`}}},
		{"xml without tags", XMLCalls, "so <function=f></function> and <function=g>\n</function>", "so ", []Call{{Name: "f", Arguments: `{}`}, {Name: "g", Arguments: `{}`}}},
		{"xml without name", XMLCalls, call("<function=add"), "", []Call{{Bad: "no name"}}},
		{"xml parameter without name", XMLCalls, call("<function=add><parameter=a"), "", []Call{{Name: "add", Bad: "a parameter without a name"}}},
	}
	for _, c := range cases {
		content, calls, err := ParseCalls(c.style, c.reply, addTool)
		for i := range calls {
			if i < len(c.calls) && c.calls[i].Bad != "" && strings.HasPrefix(calls[i].Bad, c.calls[i].Bad) {
				calls[i].Bad = c.calls[i].Bad
			}
		}
		if err != nil || content != c.content || !reflect.DeepEqual(calls, c.calls) {
			t.Errorf("%s: %q %+v %v\nwant %q %+v", c.name, content, calls, err, c.content, c.calls)
		}
	}
	if _, _, err := ParseCalls(XMLCalls, "", [][]byte{[]byte("{")}); !errors.Is(err, ErrMessage) {
		t.Errorf("bad schema: %v", err)
	}
}

// Ensure that written calls are what the templates render for them, and are
// read back as the same calls.
func TestFormatCallsAsTemplates(t *testing.T) {
	var cases []struct {
		Template, Chat string
		Messages       []struct {
			Calls []struct {
				Function struct {
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
		}
		Text *string
	}
	b, err := os.ReadFile(filepath.Join(chatData, "chats.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	styles := map[string]CallStyle{"hermes": JSONCalls, "xml": XMLCalls}
	tried := 0
	for _, c := range cases {
		_, f := loadTemplate(t, c.Template, "qwen3", ThinkingAsTemplate)
		style := styles[c.Template]
		if f.Calls() != style {
			t.Fatalf("%s: style %v", c.Template, f.Calls())
		}
		if style == NoCalls || c.Chat != "tools" {
			continue
		}
		var calls []Call
		for _, call := range c.Messages[2].Calls {
			calls = append(calls, Call{Name: call.Function.Name, Arguments: string(call.Function.Arguments)})
		}
		text, err := FormatCalls(style, "", calls)
		if err != nil || len(calls) != 2 || !strings.Contains(*c.Text, "\n"+text+"<|im_end|>") {
			t.Errorf("%s: %q, %v is not in\n%q", c.Template, text, err, *c.Text)
		}
		content, again, err := ParseCalls(style, "So:\n\n"+text, nil)
		if err != nil || content != "So:\n\n" || len(again) != 2 || style == JSONCalls && again[0].Arguments != `{"b": 2, "a": 1.0, "note": "x < y & \"z\"", "list": [1, null, true]}` {
			t.Errorf("%s: %q %+v %v", c.Template, content, again, err)
		}
		tried++
	}
	if tried != 8 {
		t.Fatalf("%d cases", tried)
	}
	for _, bad := range []Call{{Name: "f", Arguments: "[]"}, {Name: "f"}, {Name: "f", Arguments: "{}", Bad: "x"}} {
		if _, err := FormatCalls(JSONCalls, "", []Call{bad}); !errors.Is(err, ErrMessage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := FormatCalls(NoCalls, "", []Call{{Name: "f", Arguments: "{}"}}); !errors.Is(err, ErrMessage) {
		t.Errorf("no style: %v", err)
	}
}

// FuzzParseCalls: whatever a model wrote, calls that are not bad have a name
// and an object of arguments.
func FuzzParseCalls(f *testing.F) {
	f.Add("a<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1]}}\n</tool_call>")
	f.Add("</think><tool_call><function=add>\n<parameter=a>\n1\n</parameter></function></tool_call>")
	f.Fuzz(func(t *testing.T, reply string) {
		for _, style := range []CallStyle{NoCalls, JSONCalls, XMLCalls} {
			_, calls, err := ParseCalls(style, reply, addTool)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range calls {
				if c.Bad == "" && (c.Name == "" || !strings.HasPrefix(c.Arguments, "{") || !strings.HasSuffix(c.Arguments, "}")) {
					t.Fatalf("%q: %+v", reply, c)
				}
			}
		}
	})
}
