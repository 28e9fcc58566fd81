package searchqa

import (
	"errors"
	"fmt"
)

// maxLine bounds one line of a file, unpacked.
const maxLine = 4 << 20

// Errors of a line.
var (
	ErrLong = fmt.Errorf("line longer than %d bytes", maxLine)
	ErrJSON = errors.New("broken JSON")
	ErrUTF8 = errors.New("bad UTF-8")
)
