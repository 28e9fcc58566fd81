package builtin

// voteOperator draws several replies in each turn and goes on with the most frequent
// text, which it also submits, because the last sample would count otherwise.
type voteOperator struct{}

func (voteOperator) moves(c *source, d *diagnosis) []move {
	sites := c.generateSites()
	if len(sites) == 0 || c.function("voted") != nil {
		return nil
	}
	for _, l := range c.limits() {
		if l.role == samplesRole {
			return nil // limitOperator raises it
		}
	}
	voted, votes, ballots := c.fresh("voted"), c.fresh("votesFor"), c.fresh("ballots")
	code := `
// ` + ballots + ` is how many replies are drawn in each turn.
const ` + ballots + ` = 3

// ` + voted + ` returns the most frequent of several replies; the first one on a tie.
func ` + voted + `(s *kit.Session, messages []kit.Message, options kit.Options) (kit.Reply, error) {
	options.Samples = ` + ballots + `
	reply, err := ` + sites[0].inner("s", "messages", "options") + `
	if err != nil {
		return reply, err
	}
	best := reply
	most := ` + votes + `(reply, reply.Text)
	for i := 0; i < len(reply.Others); i++ {
		n := ` + votes + `(reply, reply.Others[i].Text)
		if n > most {
			most = n
			best = reply.Others[i]
		}
	}
	err = s.Submit(best)
	return best, err
}

// ` + votes + ` counts the replies with the same text.
func ` + votes + `(reply kit.Reply, text string) int {
	n := 0
	if strings.TrimSpace(reply.Text) == strings.TrimSpace(text) {
		n++
	}
	for i := 0; i < len(reply.Others); i++ {
		if strings.TrimSpace(reply.Others[i].Text) == strings.TrimSpace(text) {
			n++
		}
	}
	return n
}
`
	edits := append(c.imports("strings"), c.rewired(sites, voted)...)
	return []move{{
		name: "vote", step: "3 samples", axis: onRecovery, cures: wrongAnswer, share: .06, trust: .05,
		why: because(d.evidence(wrongAnswer, "gave a readable wrong answer"),
			"draw three replies a turn and go on with the most frequent"),
		edits: append(edits, c.atEnd(code)),
	}}
}
