// Package nvml reads NVIDIA cards through go-nvml. Every number comes back as a reading of
// package sensor: a value in its range, unsupported, or invalid. Nothing that a driver does
// can stop the caller for longer than a deadline.
//
// It may know NVML and nothing of what the readings are for. go-nvml opens the driver's
// library at run time; without one, Open says so. It needs cgo, as package cuda does.
//
// Not covered: instances of a partitioned card (MIG), which are reported as one card; cards
// of other makers; changing anything on a card.
package nvml
