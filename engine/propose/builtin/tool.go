package builtin

import (
	"strconv"
	"strings"
)

// repeatOperator answers a tool call that was made before without making it.
type repeatOperator struct{}

func (repeatOperator) moves(c *source, d *diagnosis) []move {
	sites := c.toolSites()
	if len(sites) == 0 || c.function("toolOnce") != nil {
		return nil
	}
	for _, name := range sortedConstants(c) {
		if strings.Contains(strings.ToLower(name), "repeat") {
			return nil // the harness has its own place for it: textOperator
		}
	}
	s := sites[0]
	loop := c.loop(s.call)
	if loop == nil || !c.generates(loop) {
		return nil // only a loop in which the model writes can repeat a call
	}
	// The list of calls must outlive every pass, so it stands before the outermost loop.
	for outer := c.loop(loop); outer != nil; outer = c.loop(outer) {
		loop = outer
	}
	text := d.phrase("Already searched. Search another name.", "Already")
	once, said, made := c.fresh("toolOnce"), c.fresh("alreadyText"), c.fresh("callsMade")
	code := `
const ` + said + ` = ` + strconv.Quote(text) + `

// ` + once + ` answers a call that was made before with ` + said + `.
func ` + once + `(s *kit.Session, made map[string]bool, name, args string) (string, error) {
	call := name + " " + strings.ToLower(args)
	if made[call] {
		return ` + said + `, nil
	}
	made[call] = true
	result, err := ` + s.inner("s", "name", "args") + `
	return result, err
}
`
	var own []site
	for _, other := range sites {
		if other.fn == s.fn && other.call.Pos() > loop.Pos() && other.call.End() < loop.End() {
			own = append(own, other)
		}
	}
	edits := append(c.imports("strings"), c.rewired(own, once, made)...)
	edits = append(edits, c.before(loop, made+" := make(map[string]bool)\n"), c.atEnd(code))
	return []move{{
		name: "drop repeated calls", step: strconv.Quote(text), axis: onTools, cures: repeatedCall, share: .6, trust: .1,
		why: because(d.evidence(repeatedCall, "made the same tool call twice"),
			"answer it with "+strconv.Quote(text)+" instead"),
		edits: edits,
	}}
}

// recoverOperator turns a refused tool call into a tool message, so that the rollout
// goes on.
type recoverOperator struct{}

func (recoverOperator) moves(c *source, d *diagnosis) []move {
	sites := c.toolSites()
	if len(sites) == 0 || c.function("toolOrText") != nil {
		return nil
	}
	careful, said := c.fresh("toolOrText"), c.fresh("refusedText")
	code := `
const ` + said + ` = "That call was refused."

// ` + careful + ` returns ` + said + ` for a call that the tool refuses.
func ` + careful + `(s *kit.Session, name, args string) (string, error) {
	result, err := ` + sites[0].inner("s", "name", "args") + `
	if err != nil && errors.Is(err, kit.ErrTool) {
		return ` + said + `, nil
	}
	return result, err
}
`
	edits := append(c.imports("errors"), c.rewired(sites, careful)...)
	if sites[0].callee != "Tool" {
		return nil // a wrapper with further parameters can't be wrapped with two
	}
	return []move{{
		name: "survive refused calls", step: "as text", axis: onRecovery, cures: toolFault, share: .5, trust: .1,
		why: because(d.evidence(toolFault, "ended by a tool call that was refused"),
			"tell the model instead of giving up"),
		edits: append(edits, c.atEnd(code)),
	}}
}
