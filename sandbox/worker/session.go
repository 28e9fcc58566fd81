package worker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/sandbox/abi"
	"github.com/seed-7c27e6b8/whale/sandbox/fork"
)

// errCancelled ends a guest whose session the engine's process gave up.
var errCancelled = errors.New("cancelled")

// session is one load or run, a coroutine of the server's loop. It implements fork.Host
// for its instance.
type session struct {
	id     uint32
	server *server

	lane   *lane
	answer []byte // to the pending request, set before the lane is resumed

	instance  *fork.Instance
	word      *atomic.Uint64 // ends interpreted code when written
	left      time.Duration  // guest time that remains
	spent     time.Duration
	overtime  bool // written by the watch while in guest code, read after it
	cancelled bool // written by the watch while in guest code, by the loop otherwise
	calls     int
	output    int
	limit     abi.Limit // passed in a host call
}

// Answer passes a request of the guest on and lets others run until the answer is there.
func (s *session) Answer(request []byte) ([]byte, error) {
	s.server.watch.leave(s)
	defer s.server.watch.enter(s)
	if err := s.count(len(request)); err != nil {
		return nil, err
	}
	s.server.send(abi.Frame{Kind: abi.FrameCall, Session: s.id, Payload: request})
	s.lane.yield(false)
	if s.cancelled {
		return nil, errCancelled
	}
	return s.answer, nil
}

// count holds a request against the limits.
func (s *session) count(size int) error {
	setup := s.server.setup
	s.calls++
	s.output += size
	switch {
	case s.overtime, s.cancelled:
		return errCancelled // the end of the run says why
	case s.calls > setup.MaxCalls:
		s.limit = abi.Limit{Kind: string(engine.LimitCalls), Value: s.calls, Limit: setup.MaxCalls}
	case s.output > setup.MaxOutput:
		s.limit = abi.Limit{Kind: string(engine.LimitOutput), Value: s.output, Limit: setup.MaxOutput}
	default:
		return nil
	}
	return errCancelled
}

// say puts bytes into the guest and calls a function on them, under the watch. What that gives
// is valid until the guest's next call.
func (s *session) say(name string, input []byte) ([]byte, error) {
	s.server.watch.enter(s)
	defer s.server.watch.leave(s)
	at, err := s.instance.Call("whale_room", uint64(len(input)))
	if err != nil {
		return nil, err
	}
	room, ok := s.instance.Bytes(uint32(at), uint32(len(input)))
	if !ok {
		return nil, fork.ErrDied
	}
	copy(room, input)
	result, err := s.instance.Call(name, uint64(len(input)))
	if err != nil {
		return nil, err
	}
	output, ok := s.instance.Bytes(uint32(result>>32), uint32(result))
	if !ok {
		return nil, fork.ErrDied
	}
	return output, nil
}

// ended says which limit explains how a guest call ended, or nothing.
func (s *session) ended(err error) abi.Limit {
	setup := s.server.setup
	switch {
	case s.limit.Kind != "":
		return s.limit
	case s.overtime:
		return abi.Limit{Kind: string(engine.LimitTime), Value: int(s.spent), Limit: setup.MaxTime}
	case errors.Is(err, fork.ErrMemory):
		return abi.Limit{Kind: string(engine.LimitMemory), Value: s.instance.Refused(), Limit: setup.MaxMemory}
	case errors.Is(err, fork.ErrStack):
		return abi.Limit{Kind: string(engine.LimitStack), Value: maxStack, Limit: maxStack}
	}
	return abi.Limit{}
}

// maxStack is the guest's own limit on its stack in bytes (guest/main.go).
const maxStack = 8 << 20
