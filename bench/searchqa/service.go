package searchqa

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ErrService: an HTTP service could not be reached or did not answer as agreed, after all
// tries. The rollout is lost to the host; it is not a wrong answer.
var ErrService = errors.New("service does not answer")

const maxReply = 8 << 20 // bytes of one reply

// Endpoint is an HTTP service that takes and gives JSON. Zero values mean the defaults.
type Endpoint struct {
	URL string
	// Key goes into the Authorization header as a bearer token; "" = none.
	Key string
	// Connections bounds the requests in flight, default 16.
	Connections int
	// Timeout bounds one try, default 30 s; waiting for a free connection is not in it.
	Timeout time.Duration
	// Retries are further tries after a failed one, default 4; -1 = none.
	Retries int
	// Backoff is the pause before the first further try, doubled for each one after it,
	// at most 10 s; default 250 ms.
	Backoff time.Duration
}

const maxPause = 10 * time.Second

// service is an endpoint in use; it is safe for concurrent use.
type service struct {
	Endpoint
	client *http.Client
	slots  chan struct{}
	// pause waits between tries or returns the context's error.
	pause func(context.Context, time.Duration) error
}

func newService(e Endpoint) *service {
	if e.Connections == 0 {
		e.Connections = 16
	}
	if e.Timeout == 0 {
		e.Timeout = 30 * time.Second
	}
	if e.Retries == 0 {
		e.Retries = 4
	}
	if e.Backoff == 0 {
		e.Backoff = 250 * time.Millisecond
	}
	return &service{
		Endpoint: e,
		client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
			MaxIdleConns: e.Connections, MaxIdleConnsPerHost: e.Connections, IdleConnTimeout: 90 * time.Second}},
		slots: make(chan struct{}, e.Connections),
		pause: wait,
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// post sends a request and reads the reply into out, trying again after what may pass: no
// connection, a timeout, a status of 408, 429 or 5xx, a reply that is cut or no JSON.
// Its error is the context's or wraps ErrService.
func (s *service) post(ctx context.Context, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%w: request to %s: %v", ErrService, s.URL, err)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	pause := s.Backoff
	for try := 0; ; try++ {
		final, err := s.try(ctx, body, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final || try >= s.Retries {
			return fmt.Errorf("%w: %s: %v (%d tries)", ErrService, s.URL, err, try+1)
		}
		if err := s.pause(ctx, min(pause, maxPause)); err != nil {
			return err
		}
		pause *= 2
	}
}

// try makes one request; final means that another try would end the same way.
func (s *service) try(ctx context.Context, body []byte, out any) (final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return true, err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.Key)
	}
	reply, err := s.client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, reply.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	switch {
	case err != nil:
		return false, err
	case reply.StatusCode != http.StatusOK:
		final = reply.StatusCode < 500 && reply.StatusCode != http.StatusRequestTimeout && reply.StatusCode != http.StatusTooManyRequests
		return final, fmt.Errorf("status %d: %s", reply.StatusCode, clip(strings.Join(strings.Fields(string(text)), " "), 120))
	case len(text) > maxReply:
		return true, fmt.Errorf("a reply of more than %d bytes", maxReply)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("reply: %v", err)
	}
	return false, nil
}
