package engine

import (
	"errors"
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
