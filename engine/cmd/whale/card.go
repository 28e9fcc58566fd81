package main

import (
	"fmt"
	"io"

	"github.com/seed-7c27e6b8/whale/cuda"
	"github.com/seed-7c27e6b8/whale/trainer"
)

// checkMemory says what a card gave out at most beside what was planned; nothing on a device
// that is no card, or a card that is lost.
func checkMemory(w io.Writer, dev *cuda.Device, plan trainer.Memory) {
	room, err := dev.Room()
	if err != nil || room.CardTotal == 0 {
		return
	}
	off := 100 * (float64(room.Peak)/float64(plan.Total()) - 1)
	fmt.Fprintf(w, "memory of the card: at most %.3f GB in use, planned were %.3f GB (%+.1f %%)", float64(room.Peak)/1e9, float64(plan.Total())/1e9, off)
	if off > 10 || off < -10 {
		fmt.Fprint(w, ": more than a tenth beside the plan")
	}
	fmt.Fprintln(w)
}
