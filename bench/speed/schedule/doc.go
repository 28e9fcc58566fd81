// Package schedule is a simulator of a run's schedule: the engine's loops, pool, admission
// and ledger as they are, around a device, a learner and a proposer that only pass the time
// of a virtual clock. It says how much of a cycle the device stands still, and what a few
// calls that are twenty times longer than the others do to it.
//
// It may know the engine and its schedule, nothing of models. All of it is tests, since
// only those have a virtual clock: `go test -v -run Stragglers ./bench/speed/schedule`
// prints the table.
//
// Not covered: how the true device shares a step among its rows; pages of the cache.
package schedule
