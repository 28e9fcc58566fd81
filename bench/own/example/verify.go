// Command verify judges durations: 95, 95 minutes, 1 h 35 min and 1:35 are the same. It
// reads one case a line from standard input and writes one verdict a line.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

var (
	tags  = regexp.MustCompile(`(?s)<answer>([^<]*)</answer>`)
	clock = regexp.MustCompile(`^(\d{1,3}):(\d\d)(?: ?(?:h|hours?))?$`)
	units = regexp.MustCompile(`^(?:(\d{1,3}) ?(?:h|hours?))?(?: ?(?:,|and)? ?(\d{1,4}) ?(?:m|min|mins|minutes?))?\.?$`)
)

// minutes reads a duration; false when it is none.
func minutes(text string) (int, bool) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	parts := clock.FindStringSubmatch(text)
	if parts == nil {
		parts = units.FindStringSubmatch(text)
	}
	if parts == nil || parts[1]+parts[2] == "" {
		return 0, false
	}
	hours, _ := strconv.Atoi("0" + parts[1]) // digits only
	rest, _ := strconv.Atoi("0" + parts[2])
	return 60*hours + rest, true
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.More() {
		var c struct {
			Reference int    `json:"reference"` // the row's answer
			Text      string `json:"text"`      // the model's reply
		}
		if err := in.Decode(&c); err != nil {
			fmt.Fprintln(os.Stderr, "verify:", err)
			os.Exit(1) // a fault of the host: the rollout is left out, it is no zero
		}
		verdict := map[string]string{"kind": "unparsed"}
		if pairs := tags.FindAllStringSubmatch(c.Text, -1); len(pairs) > 0 {
			if got, ok := minutes(pairs[len(pairs)-1][1]); ok {
				verdict = map[string]string{"kind": "different", "answer": strconv.Itoa(got)}
				if got == c.Reference {
					verdict["kind"] = "equal"
				}
			}
		}
		if err := out.Encode(verdict); err != nil {
			os.Exit(1)
		}
	}
}
