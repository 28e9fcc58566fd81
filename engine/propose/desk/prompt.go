package desk

import (
	"fmt"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// prompt words a brief as instructions for a model that reads and writes files.
func prompt(b engine.Brief, at Paths) string {
	var p strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&p, format+"\n", args...) }
	say("# Improve the harness of the domain %s\n", b.Domain)
	say("A harness is the program around a language model: it builds the context, offers tools, reads replies and " +
		"decides when to stop. The model stays as it is. You write better harnesses; each is then scored on the same " +
		"tasks and seeds as the one in use, and the best replaces it if it is strictly better.\n")
	say("This is iteration %d of cycle %d. In use is %s. You have %d slots.\n", b.Iteration, b.Cycle, b.Incumbent, b.Slots)
	say("## What to read\n")
	say("- %s: everything in one file: the harnesses with sources and scores, failed and successful rollouts of the one in use, what was refused and why.", at.Brief)
	for _, e := range b.Entries {
		if len(b.Entries) > 1 || e.Harness.ID != b.Incumbent {
			say("- evolution.md: the whole search, every candidate with hypothesis, gain and p; accepted.json: the one in use.")
			say("- harnesses/ID/harness.go, meta.json, score.json; cycles/NN/iteration-II/report.md (or .json), results.jsonl (a line per rollout), transcripts-ID.txt (every rollout in full).")
			break
		}
	}
	say("\nStart with the failed rollouts: find what most of them have in common before you write anything.\n")
	say("## What to write\n")
	say("For each slot S from 1 to %d: %s/S/harness.go, a complete Go file `package harness` with `func Run(s *kit.Session) error`, and %s/S/meta.json:", b.Slots, at.Out, at.Out)
	say("{\"hypothesis\": \"one sentence: what gets better, and why\", \"axis\": \"context, tools, parsing, recovery or stopping\", \"parents\": [\"ID\"]}")
	say("One idea a slot, different ideas in different slots. Fewer candidates are fine; nothing outside of %s/ may be written.\n", at.Out)
	if b.PromptsOnly {
		say("Only the values of string constants at package level may differ from the seed harness %s; anything else is refused.\n", seedOf(b))
	}
	say("## Against overfitting\n")
	say("The tasks that you see are a sample. A candidate that holds an answer, a question or an id of a task, or the name of a data set, is refused, also in comments. " +
		"Prefer changes that would help on any task of this kind; a rule that helps one transcript is worth nothing.\n")
	repairs(&p, b)
	say("## Advice for this domain (SKILL.md)\n")
	p.WriteString(strings.TrimSpace(b.Skill))
	p.WriteString("\n")
	return p.String()
}

// seedOf is the id of the run's first harness.
func seedOf(b engine.Brief) engine.HarnessID {
	if len(b.Entries) == 0 {
		return b.Incumbent
	}
	return b.Entries[0].Harness.ID
}

// repairs tells what was refused. What came back is to be mended; older refusals are there
// to learn from.
func repairs(p *strings.Builder, b engine.Brief) {
	if len(b.Rejected) == 0 {
		return
	}
	old := b.Rejected[:len(b.Rejected)-min(b.Repair, len(b.Rejected))]
	if back := b.Rejected[len(old):]; len(back) > 0 {
		fmt.Fprintf(p, "## Refused just now: mend these\n\n")
		for i, r := range back {
			fmt.Fprintf(p, "Slot %d (source in brief.json, rejected[%d]): %s\n\n", i+1, len(old)+i, r.Err.Error())
		}
	}
	if len(old) > 0 {
		fmt.Fprintf(p, "## Refused before\n\n")
		for i, r := range old {
			fmt.Fprintf(p, "- rejected[%d]: %s\n", i, r.Err.Error())
		}
		p.WriteString("\n")
	}
}
