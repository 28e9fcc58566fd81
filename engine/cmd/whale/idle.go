package main

import (
	"fmt"
	"io"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/ledger"
)

// printIdle says what the device did by the clock: work, or nothing and why.
func printIdle(w io.Writer, rows []ledger.Part) {
	fmt.Fprintf(w, "\ndevice, s            wall   works")
	for _, cause := range (ledger.Total{}).Idle() {
		fmt.Fprintf(w, " %8s", cause.Name)
	}
	fmt.Fprintf(w, " | idle %%  drain\n")
	for _, r := range rows {
		wall := r.Spending.Wall
		fmt.Fprintf(w, "%-16s %8.1f %7.1f", partName(r.Total), wall, r.Device())
		for _, cause := range r.Idle() {
			fmt.Fprintf(w, " %8.2f", max(0, cause.Seconds))
		}
		fmt.Fprintf(w, " | %6.1f %6.2f\n", 100*(1-r.Device()/max(wall, 1e-9)), r.Spending.Drain)
	}
}

// printMoney says what was taken from the socket and paid to services; nothing where
// nothing is known.
func printMoney(w io.Writer, rows []ledger.Part) {
	total := rows[len(rows)-1].Spending
	if total.Energy.Total() != nil {
		fmt.Fprintf(w, "\njoules              total processors    cards | rollouts   updates | a rollout\n")
		for _, r := range rows {
			s := r.Spending
			a := "-"
			if e := s.RolloutEnergy.Total(); e != nil && r.Rollouts > 0 {
				a = fmt.Sprintf("%.2f", *e/float64(r.Rollouts))
			}
			fmt.Fprintf(w, "%-16s %8s %10s %8s | %8s %9s | %9s\n", partName(r.Total), joules(s.Energy.Total()), joules(amount(s.Energy.Package)),
				joules(amount(s.Energy.Card)), joules(s.RolloutEnergy.Total()), joules(s.TrainEnergy.Total()), a)
		}
	} else {
		fmt.Fprintf(w, "\njoules are not known: this machine has no counter that could be read (whale doctor says why)\n")
	}
	if total.Cost.Proposal.Calls == 0 {
		return
	}
	fmt.Fprintf(w, "\nproposals           calls    input   cached   output  dollars unpriced  seconds\n")
	for _, r := range rows {
		if p := r.Spending.Cost.Proposal; p.Calls > 0 {
			fmt.Fprintf(w, "%-16s %8d %8d %8d %8d %8.4f %8d %8.1f\n", partName(r.Total), p.Calls, p.Input, p.Cached, p.Output, p.Dollars, p.Unpriced, p.Seconds)
		}
	}
}

// amount is nil when nothing could be read.
func amount(j engine.Joules) *float64 {
	if j.Seconds <= 0 {
		return nil
	}
	return &j.Joules
}

func joules(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *v)
}
