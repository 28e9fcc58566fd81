package main

import (
	"fmt"
	"io"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// checkMemory says what a card gave out at most beside what the plan has for what was done, and
// what is held for the whole plan; nothing on a device that is no card, or a card that is lost.
func checkMemory(w io.Writer, dev *cuda.Device, t *trainer.Trainer) {
	room, err := dev.Room()
	if err != nil || room.CardTotal == 0 {
		return
	}
	plan, reached := t.Memory(), t.Reached()
	off := 100 * (float64(room.Peak)/float64(reached.Total()) - 1)
	fmt.Fprintf(w, "memory of the card: at most %.3f GB in use, the plan has %.3f GB for micro-batches of %d tokens (%+.1f %%)",
		float64(room.Peak)/1e9, float64(reached.Total())/1e9, reached.MicroTokens, off)
	if off > 10 || off < -10 {
		fmt.Fprint(w, ": more than a tenth beside the plan")
	}
	fmt.Fprintf(w, "; held %.3f GB for the plan of %.3f GB\n", float64(room.Held)/1e9, float64(plan.Total())/1e9)
}
