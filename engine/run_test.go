package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// notebook is a store that keeps what is committed, and a folder for any weights.
type notebook struct {
	Store
	records []Record
}

func (n *notebook) Commit(r Record) error       { n.records = append(n.records, r); return nil }
func (*notebook) WeightsDir(name string) string { return name }

// joules is a meter that reads out a list.
type joules []float64

func (j *joules) Energy() Energy {
	now := (*j)[0]
	*j = (*j)[1:]
	return Energy{Package: Joules{now, now}}
}

// Each unit's spending is its own: what was loaded and taken since the commit before it.
func TestCommit_spending(t *testing.T) {
	book := &notebook{}
	r := &run{Site: &Site{Parts: Parts{Store: book, Energy: &joules{10, 30, 35}}, meter: &meter{}}, since: time.Now()}
	for i, loaded := range []float64{5, 0, 2} {
		r.loading += loaded
		if err := r.commit(Record{Kind: StepRecord, Step: &Step{}, Index: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []struct{ load, joules float64 }{{5, 10}, {0, 20}, {2, 5}} {
		if s := book.records[i].Spending; book.records[i].Seq != i || s.Load != want.load || s.Energy.Package.Joules != want.joules {
			t.Errorf("record %d of seq %d: loaded %v s, took %v J, want %+v", i, book.records[i].Seq, s.Load, s.Energy.Package.Joules, want)
		}
	}
}

// loader is a learner that loads anything.
type loader struct{ Learner }

func (loader) Load(context.Context, string) error { return nil }

// A folder that holds other weights than the journal says ends the run.
func TestUseWeights(t *testing.T) {
	s := &Site{Parts: Parts{Store: &notebook{}, Learner: loader{}, Policy: &echoPolicy{}}}
	if err := s.useWeights(t.Context(), "folder", "w1"); err != nil {
		t.Error(err)
	}
	err := s.useWeights(t.Context(), "folder", "w2")
	var f *Failure
	if !errors.As(err, &f) || f.Boundary != AtArchive || !strings.Contains(err.Error(), "hold w1, the journal says w2") {
		t.Errorf("other weights: %v", err)
	}
}
