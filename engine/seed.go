package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// RolloutSeed is the randomness of one rollout: the first eight bytes of SHA-256 over
// the run's seed, the purpose ("train/7", "select/2", "test"), the task and the sample
// number. Nothing else enters, so a rollout is the same at any worker count and order,
// and two harnesses that are compared on a task meet the same seed.
func RolloutSeed(run uint64, purpose string, task TaskID, sample int) uint64 {
	return hashSeed(run, purpose, string(task), uint64(sample))
}

// CallSeed is the randomness of one completion inside a rollout: turn counts the
// rollout's calls of Generate from 0, choice its samples from 0. The token at position
// p is drawn with (CallSeed, p) by the policy.
func CallSeed(rollout uint64, turn, choice int) uint64 {
	return hashSeed(rollout, "call", "", uint64(turn), uint64(choice))
}

// hashSeed hashes length-prefixed fields, so no two lists of fields share an encoding.
func hashSeed(seed uint64, text, more string, numbers ...uint64) uint64 {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	for _, s := range []string{text, more} {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:8])
}

// permutation is the order in which an epoch visits n training tasks.
func permutation(run uint64, epoch, n int) []int {
	return rand.New(rand.NewPCG(hashSeed(run, "epoch", "", uint64(epoch)), 0)).Perm(n)
}
