package harness

import (
	"testing"

	"github.com/seed-7c27e6b8/whale/harnesses/kit/kittest"
)

// The same scripts run in the sandbox's tests.
func TestScripts(t *testing.T) {
	scripts := kittest.Scripts("own")
	if len(scripts) == 0 {
		t.Fatal("no scripts")
	}
	for _, script := range scripts {
		t.Run(script.Name, func(t *testing.T) {
			if err := script.Play(Run); err != nil {
				t.Error(err)
			}
		})
	}
}
