package live

import (
	"bytes"
	"cmp"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/report"
)

// rollouts lists what a query keeps. The lists of committed files never change, so each is
// read once; 100,000 rollouts take about 30 MB.
func (s *Server) rollouts(b *bytes.Buffer, r *http.Request, folder *archive.Reader) error {
	l := report.RolloutList{Run: filepath.Base(s.folder), Bar: s.bar(folder), Query: report.ParseRolloutQuery(r.URL.Query())}
	q := l.Query
	var found []*archive.Rollout
	for _, rec := range folder.Records() {
		if rec.File == "" {
			continue
		}
		list, ok := s.lists[rec.File]
		if !ok {
			var err error
			if list, err = folder.List(rec.File); err != nil {
				return err
			}
			s.lists[rec.File] = list
		}
		l.Of += len(list)
		for i := range list {
			if x := &list[i]; keep(q, x) {
				found = append(found, x)
			}
		}
	}
	arrange(q, found)
	l.Found = len(found)
	l.From = min(q.Page*rowsPerPage, max(0, (l.Found-1)/rowsPerPage*rowsPerPage))
	l.Query.Page = l.From / rowsPerPage
	for _, x := range found[l.From:min(l.From+rowsPerPage, len(found))] {
		l.Rows = append(l.Rows, report.RolloutRow{File: x.File, Index: x.Index, State: report.State(x.Outcome, x.Verdict, x.Reward),
			Task: string(x.Task), Harness: string(x.Harness), Phase: x.Phase, Sample: x.Sample, Reward: x.Reward,
			Turns: x.Turns, Tools: x.Tools, Sampled: x.Sampled, Prompt: x.Prompt})
	}
	return report.WriteRollouts(b, l)
}

func keep(q report.RolloutQuery, x *archive.Rollout) bool {
	return strings.HasPrefix(string(x.Harness), q.Harness) && strings.HasPrefix(string(x.Task), q.Task) &&
		strings.HasPrefix(x.Phase, q.Phase) && (q.State == "" || report.State(x.Outcome, x.Verdict, x.Reward) == q.State)
}

// arrange sorts rows; equal ones stay as they were made.
func arrange(q report.RolloutQuery, found []*archive.Rollout) {
	key := map[string]func(x *archive.Rollout) float64{
		"tokens": func(x *archive.Rollout) float64 { return float64(x.Sampled) },
		"turns":  func(x *archive.Rollout) float64 { return float64(x.Turns) },
		"reward": func(x *archive.Rollout) float64 { return x.Reward },
	}[q.Sort]
	switch {
	case key == nil && q.Down:
		slices.Reverse(found)
	case key != nil:
		slices.SortStableFunc(found, func(a, b *archive.Rollout) int {
			if q.Down {
				return cmp.Compare(key(b), key(a))
			}
			return cmp.Compare(key(a), key(b))
		})
	}
}
