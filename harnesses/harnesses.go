// Package harnesses holds the seed harness h0 of each domain, one folder a domain, as
// text: what a run starts its search from, and the SKILL.md that its proposers read.
//
// The folders are ordinary Go packages, so go vet, a debugger and go test work on them;
// this package embeds the same files for the sandbox. It does not know how a harness is
// run. Harnesses that a search finds live in the run's archive, never here.
package harnesses

import (
	"embed"
	"fmt"
)

//go:embed lookup/harness.go lookup/SKILL.md
//go:embed sums/harness.go sums/SKILL.md
//go:embed chess/harness.go chess/SKILL.md
//go:embed math/harness.go math/SKILL.md
//go:embed searchqa/harness.go searchqa/SKILL.md
//go:embed own/harness.go own/SKILL.md
var files embed.FS

// Names are the domains with a seed harness.
func Names() []string { return []string{"lookup", "sums", "chess", "math", "searchqa", "own"} }

// Source returns the source of a domain's seed harness.
func Source(domain string) (string, error) { return read(domain, "harness.go") }

// Skill returns the advice for proposers of a domain.
func Skill(domain string) (string, error) { return read(domain, "SKILL.md") }

// Seed returns both.
func Seed(domain string) (source, skill string, err error) {
	if source, err = Source(domain); err != nil {
		return "", "", err
	}
	skill, err = Skill(domain)
	return source, skill, err
}

func read(domain, name string) (string, error) {
	text, err := files.ReadFile(domain + "/" + name)
	if err != nil {
		return "", fmt.Errorf("harness %s: no seed of this domain: %w", domain, err)
	}
	return string(text), nil
}
