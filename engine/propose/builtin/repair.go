package builtin

import "go/ast"

// repairOperator completes a tool's markup before the harness reads it: tags in any
// case, a missing or wrong closing tag, a missing opening tag. It changes what the
// harness understands, not what the model wrote.
type repairOperator struct{}

func (repairOperator) moves(c *source, d *diagnosis) []move {
	reads := c.readings()
	tags := d.marks.tool
	if len(tags) == 0 || len(reads) == 0 || c.function("repaired") != nil {
		return nil
	}
	repair, whole := c.fresh("repaired"), c.fresh("wholeReply")
	edits := c.imports("strings")
	for _, r := range reads {
		edits = append(edits, c.replace(r, repair+"("+c.code(r)+")"))
	}
	code := `
// ` + repair + ` completes a tool's tags in a reply: any case, the closing or the opening
// tag missing. A reply with a complete pair stays as it is.
func ` + repair + `(text string) string {
	lower := strings.ToLower(text)
	if len(lower) != len(text) || ` + whole + `(text) {
		return text
	}
	tags := []string{` + quoted(tags) + `}
	for i := 0; i < len(tags); i++ {
		open := "<" + tags[i] + ">"
		end := "</" + tags[i] + ">"
		from := strings.Index(lower, open)
		to := strings.Index(lower, end)
		if from >= 0 {
			rest := text[from+len(open):]
			stop := strings.Index(rest, "<")
			if stop >= 0 {
				rest = rest[:stop]
			}
			if strings.TrimSpace(rest) != "" {
				return open + strings.TrimSpace(rest) + end
			}
		} else if to > 0 && strings.TrimSpace(text[:to]) != "" {
			return open + strings.TrimSpace(text[:to]) + end
		}
	}
	return text
}

// ` + whole + ` reports whether a text has a complete pair of tags already.
func ` + whole + `(text string) bool {
	tags := []string{` + quoted(d.marks.reply) + `}
	for i := 0; i < len(tags); i++ {
		from := strings.Index(text, "<"+tags[i]+">")
		if from >= 0 && strings.Contains(text[from:], "</"+tags[i]+">") {
			return true
		}
	}
	return false
}
`
	return []move{{
		name: "tolerate", step: "incomplete tags", axis: onParsing, cures: brokenCall, share: .8, trust: .2,
		why: because(d.evidence(brokenCall, "wrote a tool call with incomplete tags"),
			"complete the tags before reading"),
		edits: append(edits, c.atEnd(code)),
	}}
}

// readings are the places where a harness reads the text of a reply: reply.Text as an
// argument of a call, other than in a message.
func (c *source) readings() []ast.Expr {
	var found []ast.Expr
	ast.Inspect(c.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Text" || !isKit(c.info.Types[sel.X].Type, "Reply") {
			return true
		}
		call, ok := c.parent[sel].(*ast.CallExpr)
		fn := c.within(sel)
		if ok && fn != nil && !isGenerate(c.signature(fn)) && c.returnsText(call) {
			found = append(found, sel)
		}
		return true
	})
	return found
}

// returnsText tells whether a call's first result is a text read out of the argument: a
// function of the harness that returns strings. Functions of other packages are taken
// as reading, too.
func (c *source) returnsText(call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.Ident)
	if !ok {
		_, selector := call.Fun.(*ast.SelectorExpr)
		return selector
	}
	f := c.function(fun.Name)
	if f == nil {
		return false
	}
	results := c.signature(f).Results()
	return results.Len() > 0 && isString(results.At(0).Type())
}
