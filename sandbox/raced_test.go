//go:build race

package sandbox

// raced: the race detector is on, which makes everything three times slower and larger.
const raced = true
