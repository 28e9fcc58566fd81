package builtin

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// textOperator fills an empty text constant that the harness is ready to use, and takes
// a wording that SKILL.md recommends. What a text is for is read from its name and
// comment; texts whose purpose stays unknown are left alone.
type textOperator struct{}

// purpose is what a text constant is for.
type purpose struct {
	words    []string // any of these in name or comment
	fallback string   // the wording when SKILL.md has none; "" = only SKILL.md's
	starts   []string // how SKILL.md's wording starts
	what     string
	axis     string
	cures    symptom
	sign     string
	share    float64
	trust    float64
}

// purposes in the order in which they are matched.
func purposes(d *diagnosis) []purpose {
	return []purpose{
		{[]string{"repeat", "again", "already"}, "Already searched. Search another name.", []string{"Already"},
			"repeated call", onTools, repeatedCall, "made the same tool call twice", .6, .2},
		{[]string{"illegal", "refused", "invalid"}, "That was refused. " + d.reminder(), []string{"Illegal", "That"},
			"refused call", onRecovery, toolFault | wrongAnswer, "had a call refused or ended wrong", .3, .2},
		{[]string{"nudge", "unreadable", "format", "malformed"}, d.reminder(), []string{"Reply with"},
			"nudge", onRecovery, unreadable | brokenCall, "ended with a reply that could not be read", .4, .25},
		{[]string{"hint", "last"}, "Answer now.", []string{"Answer now", "Last turn"},
			"hint on the last turn", onStopping, endedAsking, "ended with a tool call in the last turn", .25, .2},
	}
}

func (textOperator) moves(c *source, d *diagnosis) []move {
	var all []move
	for _, d0 := range c.file.Decls {
		g, ok := d0.(*ast.GenDecl)
		if !ok || (g.Tok != token.CONST && g.Tok != token.VAR) {
			continue
		}
		for _, s := range g.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || len(spec.Names) != len(spec.Values) {
				continue
			}
			for i, value := range spec.Values {
				lit, ok := value.(*ast.BasicLit)
				if !ok || lit.Value != `""` || !c.used(spec.Names[i]) {
					continue
				}
				comment := spec.Doc.Text() + spec.Comment.Text()
				if m, ok := fill(c, d, spec.Names[i].Name, comment, lit); ok {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

// used tells whether a name is read anywhere.
func (c *source) used(id *ast.Ident) bool {
	object := c.info.Defs[id]
	for _, u := range c.info.Uses {
		if u == object && object != nil && isStringConst(object) {
			return true
		}
	}
	return false
}

func isStringConst(object types.Object) bool {
	b, ok := object.Type().Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

func fill(c *source, d *diagnosis, name, comment string, lit *ast.BasicLit) (move, bool) {
	for _, where := range []string{name, comment} {
		where = strings.ToLower(where)
		for _, p := range purposes(d) {
			for _, word := range p.words {
				if !strings.Contains(where, word) {
					continue
				}
				text := d.phrase(p.fallback, p.starts...)
				return move{
					name: "text (" + name + ")", step: fmt.Sprintf("empty -> %q", text), axis: p.axis,
					cures: p.cures, share: p.share, trust: p.trust,
					why:   because(d.evidence(p.cures, p.sign), fmt.Sprintf("say %q (%s)", text, p.what)),
					edits: []edit{c.replace(lit, strconv.Quote(text))},
				}, true
			}
		}
	}
	return move{}, false
}
