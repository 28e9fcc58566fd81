package python

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/seed-7c27e6b8/whale/sandbox/worker"
)

// workerName is argv[0] of a process that is about to become Python.
const workerName = "whale-python"

// orderVariable holds the worker.Foreign as JSON.
const orderVariable = "WHALE_PYTHON"

// What a worker says on descriptor 3: ready right before it becomes Python, unconfined and
// the reason when the system can't hold it, another text for another fault.
const (
	ready      = "ready"
	unconfined = "unconfined"
)

// registered: this executable can be a worker. Started again without that, it would do
// again whatever its main does.
var registered bool

// WorkerMain turns the process into Python when it was started for that, and never returns
// then. Call it first thing in main and TestMain.
func WorkerMain() {
	registered = true
	if len(os.Args) == 0 || os.Args[0] != workerName {
		return
	}
	say := os.NewFile(3, "report")
	err := become(say)
	text := err.Error()
	if errors.Is(err, worker.ErrConfine) {
		text = unconfined + strings.TrimPrefix(text, worker.ErrConfine.Error())
	}
	if _, err := say.WriteString(text); err != nil {
		fmt.Fprintln(os.Stderr, workerName+":", text)
	}
	os.Exit(1)
}

func become(say *os.File) error {
	var order worker.Foreign
	if err := json.Unmarshal([]byte(os.Getenv(orderVariable)), &order); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	return order.Exec(func() error {
		_, err := say.WriteString(ready)
		return err
	})
}
