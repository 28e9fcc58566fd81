package builtin

import (
	"go/ast"
	"strconv"
	"strings"
)

// hintOperator adds a message before the last turn of a counted loop.
type hintOperator struct{}

func (hintOperator) moves(c *source, d *diagnosis) []move {
	if len(d.marks.tool) == 0 {
		return nil // nothing but answers is asked for anyway
	}
	hint := d.phrase("Answer now.", "Answer now", "Last turn")
	for _, text := range c.strings() {
		if strings.Contains(text, hint) {
			return nil
		}
	}
	for _, id := range sortedConstants(c) {
		if strings.Contains(strings.ToLower(id), "hint") {
			return nil // the harness has its own place for it: textOperator
		}
	}
	for _, s := range c.generateSites() {
		loop := c.loop(s.call)
		k, ok := c.counted(loop)
		stmt := c.statement(s.call)
		at := 0
		if s.callee != "Generate" {
			at = 1
		}
		messages, plain := s.call.Args[at].(*ast.Ident)
		if !ok || stmt == nil || !plain || c.parent[stmt] != ast.Node(loop.(*ast.ForStmt).Body) {
			continue
		}
		limit, edits := c.code(k.limit), []edit(nil)
		if bare, ok := k.limit.(*ast.BasicLit); ok {
			// Named, so that raising it later moves the hint, too.
			limit = c.fresh("turnLimit")
			edits = append(edits, c.replace(bare, limit), c.atEnd("// "+limit+" bounds the replies of the model.\nconst "+limit+" = "+bare.Value+"\n"))
		}
		last := k.name + " >= " + limit
		if !k.inclusive {
			last = k.name + "+1 >= " + limit
		}
		name := c.fresh("lastHint")
		code := "if " + last + " && len(" + messages.Name + ") > 1 {\n" +
			messages.Name + " = append(" + messages.Name + ", kit.Message{Role: kit.User, Content: " + name + "})\n}\n"
		return []move{{
			name: "hint on the last turn", step: strconv.Quote(hint), axis: onStopping,
			cures: endedAsking, share: .2, trust: .15,
			why: because(d.evidence(endedAsking, "ended with a tool call in the last turn"),
				"say "+strconv.Quote(hint)+" before the last turn"),
			edits: append(edits, c.before(stmt, code),
				c.atEnd("// "+name+" is said before the last turn.\nconst "+name+" = "+strconv.Quote(hint)+"\n")),
		}}
	}
	return nil
}

// sortedConstants are the names declared at package level, in text order.
func sortedConstants(c *source) []string {
	var names []string
	for _, d := range c.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				if spec, ok := s.(*ast.ValueSpec); ok {
					for _, id := range spec.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}
