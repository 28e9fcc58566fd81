package bench

import "fmt"

// RowError says what is wrong with one row of a task file. The other rows are used.
type RowError struct {
	File string
	Row  int // line number, or number of the record where a file has no lines, from 1
	Err  error
}

// Error is one line: "task FILE:ROW: cause".
func (e *RowError) Error() string { return fmt.Sprintf("task %s:%d: %v", e.File, e.Row, e.Err) }

// Unwrap gives errors.Is the cause.
func (e *RowError) Unwrap() error { return e.Err }
