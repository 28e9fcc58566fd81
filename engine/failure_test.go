package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

// A boundary is named once, and the cause is found through it.
func TestFailure(t *testing.T) {
	lost := Fail(AtDevice, "cuda", errors.New("device cuda: matmul: lost"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{Fail(AtArchive, "runs/a", io.ErrUnexpectedEOF), "archive runs/a: unexpected EOF"},
		{lost, "device cuda: matmul: lost"},
		{AtDevice.wrap("update of step 3", lost), "device cuda: matmul: lost"},
		{AtDevice.wrap("update of step 3", io.EOF), "device update of step 3: EOF"},
		{Fail(AtPolicy, "cuda", lost), "policy cuda: device cuda: matmul: lost"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("%q, want %q", c.err, c.want)
		}
	}
	if err := Fail(AtArchive, "runs/a", io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) || Fail(AtArchive, "runs/a", nil) != nil {
		t.Error(err)
	}
}

// Whose fault an error is, however deep it lies: a harness's or model's own is invalid, what
// nobody knows is the host's.
func TestClassify(t *testing.T) {
	for want, list := range map[Outcome][]error{
		Scored:  {nil, ErrBudget, fmt.Errorf("late: %w", ErrBudget)},
		Invalid: {&HarnessError{Text: "x"}, &LimitError{Kind: LimitTime}, &LoadError{Rule: "parse"}, ErrTool, ErrContext, Fail(AtHarness, "h", &LoadError{}), fmt.Errorf("x: %w", ErrContext)},
		Infra:   {errors.New("disk"), context.Canceled, context.DeadlineExceeded, Fail(AtPolicy, "p", errors.New("x")), &hostFault{ErrTool}},
	} {
		for _, err := range list {
			if got := Classify(err); got != want {
				t.Errorf("%v is %s, want %s", err, got, want)
			}
		}
	}
}
