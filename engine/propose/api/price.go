package api

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine"
)

// Price is what a million tokens cost in dollars. The zero value is unknown.
type Price struct {
	Input, Output float64
	Read, Write   float64 // input that is read from the service's cache, and written to it
}

// prices are list prices by the beginning of a model's name, which may end there or with a
// date. They are what the makers' pricing pages said in November 2026
// (platform.claude.com/docs/en/about-claude/pricing, five-minute cache writes;
// developers.openai.com/api/docs/pricing, short context). Prices by length of the prompt,
// of batches and of other regions are left out: say what you pay with --proposer-price.
var prices = map[string]Price{
	"claude-fable-5":    {10, 50, 1, 12.5},
	"claude-opus-5":     {5, 25, .5, 6.25},
	"claude-opus-4-8":   {5, 25, .5, 6.25},
	"claude-opus-4-7":   {5, 25, .5, 6.25},
	"claude-opus-4-6":   {5, 25, .5, 6.25},
	"claude-opus-4-5":   {5, 25, .5, 6.25},
	"claude-sonnet-4-6": {3, 15, .3, 3.75},
	"claude-sonnet-4-5": {3, 15, .3, 3.75},
	"claude-haiku-4-5":  {1, 5, .1, 1.25},
	"gpt-5.4":           {2.5, 15, .25, 2.5},
	"gpt-5.4-mini":      {.75, 4.5, .075, .75},
	"gpt-5":             {1.25, 10, .125, 1.25},
	"gpt-5-mini":        {.25, 2, .025, .25},
	"gpt-4.1":           {2, 8, .5, 2},
}

// PriceOf finds a model's list price; false when it is not known.
func PriceOf(model string) (Price, bool) {
	for name, price := range prices {
		rest, ok := strings.CutPrefix(model, name)
		if ok && strings.Trim(rest, "-0123456789") == "" && (rest == "" || len(rest) >= len("-20250101")) {
			return price, true
		}
	}
	return Price{}, false
}

// Of returns what a cost without its money comes to. Tokens written to a cache are not told
// apart there and count as other input.
func (p Price) Of(c engine.ProposalCost) (dollars float64) {
	return (float64(c.Input-c.Cached)*p.Input + float64(c.Cached)*p.Read + float64(c.Output)*p.Output) / 1e6
}

// ParsePrice reads IN,OUT[,READ[,WRITE]]: without the last two, what is cached costs as
// input that is not.
func ParsePrice(text string) (Price, error) {
	fields := strings.Split(text, ",")
	if len(fields) < 2 || len(fields) > 4 {
		return Price{}, fmt.Errorf("price %q: want input,output[,cache read[,cache write]] in dollars per million tokens", text)
	}
	var v [4]float64
	for i, f := range fields {
		n, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil || !(n >= 0 && n < 1e6) {
			return Price{}, fmt.Errorf("price %q: %q is no number of dollars", text, f)
		}
		v[i] = n
	}
	p := Price{Input: v[0], Output: v[1], Read: v[0], Write: v[0]}
	if len(fields) > 2 {
		p.Read = v[2]
	}
	if len(fields) > 3 {
		p.Write = v[3]
	}
	return p, nil
}
