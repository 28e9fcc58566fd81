//go:build !amd64 && !arm64

package worker

// seccomp does nothing: the filter knows the calls of two architectures.
func seccomp(bool) bool { return false }

func foreignCalls() []call { return nil }

func install([]call) bool { return false }

// call has no meaning here.
type call struct{}
