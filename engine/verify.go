package engine

import (
	"fmt"
	"math"
	"time"
)

// verify asks the world for a verdict. A trajectory without any call earns nothing: an
// answer that the model did not write does not count, whatever a verifier makes of it.
// An error is a fault of the host.
func verify(w World, task Task, t *Trajectory) (Verdict, error) {
	if t.Answer() == nil {
		return Verdict{Kind: Unparsed}, nil
	}
	begin := time.Now()
	var v Verdict
	err := guard(AtVerifier, string(task.ID), func() (err error) {
		v, err = w.Verify(task, t)
		if err == nil && (math.IsNaN(v.Reward) || v.Reward < 0 || v.Reward > 1) {
			err = fmt.Errorf("reward %v is outside [0,1]", v.Reward)
		}
		return err
	})
	t.Cost.VerifySeconds += time.Since(begin).Seconds()
	if err != nil {
		return Verdict{}, AtVerifier.wrap(string(task.ID), err)
	}
	v.Answer = valid(v.Answer)
	return v, nil
}
