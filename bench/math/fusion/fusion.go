// Package fusion runs the code tool's programs on a service that speaks the protocol of
// SandboxFusion: POST /run_code with a program, its output comes back.
//
// A service that can't be reached, is busy for too long or reports a fault of its own is a
// fault of the host, so the rollout is lost and not a zero. What the program itself does
// wrong is output.
//
// What it may not know: tasks, models, which service it is.
// What it does not cover: starting or confining the service; files.
package fusion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options of a client. Zero values mean the defaults.
type Options struct {
	RunTimeout time.Duration // of a program, default 10 s
	Retries    int           // further attempts at a fault of the service, default 2; -1 = none
	Pause      time.Duration // before the first retry, doubled each time, default 200 ms
	InFlight   int           // requests at once, default 32
	MemoryMB   int           // of a program, 0 = the service's own limit
}

func (o Options) withDefaults() Options {
	if o.RunTimeout == 0 {
		o.RunTimeout = 10 * time.Second
	}
	if o.Retries == 0 {
		o.Retries = 2
	}
	if o.Pause == 0 {
		o.Pause = 200 * time.Millisecond
	}
	if o.InFlight == 0 {
		o.InFlight = 32
	}
	return o
}

// Client is an interpreter behind HTTP. It may be used from many goroutines.
type Client struct {
	endpoint string
	options  Options
	places   chan struct{}
	http     *http.Client
}

// New makes a client of the service at a base URL; /run_code is added.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("code service: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("code service: %q is no http URL", base)
	}
	o = o.withDefaults()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: o.InFlight, IdleConnTimeout: time.Minute}
	return &Client{
		endpoint: u.JoinPath("run_code").String(),
		options:  o,
		places:   make(chan struct{}, o.InFlight),
		// Compiling, queueing and the way come on top of the program's own time.
		http: &http.Client{Transport: transport, Timeout: o.RunTimeout + 30*time.Second},
	}, nil
}

// Dialect tells the model what it may write.
func (*Client) Dialect() string { return "It is Python 3; each program starts afresh." }

type request struct {
	Code       string  `json:"code"`
	Language   string  `json:"language"`
	RunTimeout float64 `json:"run_timeout"` // seconds
	MemoryMB   int     `json:"memory_limit_MB,omitempty"`
}

type response struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Run     *struct {
		Status string `json:"status"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	} `json:"run_result"`
}

// ErrService: the service failed by its own fault.
var ErrService = errors.New("code service failed")

// errAgain marks a fault that another attempt may not meet.
var errAgain = errors.New("try again")

// Run runs a program. An error is the context's or a fault of the service, after all
// retries.
func (c *Client) Run(ctx context.Context, program string) (string, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	body, err := json.Marshal(request{Code: program, Language: "python", RunTimeout: c.options.RunTimeout.Seconds(), MemoryMB: c.options.MemoryMB})
	if err != nil {
		return "", fmt.Errorf("code service: %w", err)
	}
	for attempt := 0; ; attempt++ {
		output, err := c.once(ctx, body)
		if err == nil || attempt >= c.options.Retries || !errors.Is(err, errAgain) || ctx.Err() != nil {
			return output, err
		}
		pause := time.NewTimer(c.options.Pause << min(attempt, 8))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return "", ctx.Err()
		}
	}
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

func (c *Client) once(ctx context.Context, body []byte) (string, error) {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("code service: %w", err)
	}
	call.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(call)
	if err != nil {
		return "", fmt.Errorf("%w: %w: %w", ErrService, errAgain, err)
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return "", fmt.Errorf("%w: %w: %w", ErrService, errAgain, err)
	}
	switch {
	case answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests:
		return "", fmt.Errorf("%w: %w: status %s", ErrService, errAgain, answer.Status)
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: status %s: %.200s", ErrService, answer.Status, oneLine(raw))
	case len(raw) > maxAnswer:
		return "Error: too much output", nil
	}
	return read(raw)
}

// read turns an answer into what a harness gets.
func read(raw []byte) (string, error) {
	var r response
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", fmt.Errorf("%w: answer: %w", ErrService, err)
	}
	if r.Status == "SandboxError" {
		return "", fmt.Errorf("%w: %w: %.200s", ErrService, errAgain, oneLine([]byte(r.Message)))
	}
	if r.Run == nil || r.Status != "Success" && r.Status != "Failed" {
		return "", fmt.Errorf("%w: answer without a result, status %.40q", ErrService, r.Status)
	}
	output := r.Run.Stdout
	if r.Status == "Success" {
		return output, nil
	}
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	if r.Run.Status == "TimeLimitExceeded" {
		return output + "Error: the program took too long", nil
	}
	return output + "Error: " + lastLines(r.Run.Stderr, 3), nil
}

// lastLines are the lines of a traceback that say what happened.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func oneLine(raw []byte) string { return strings.Join(strings.Fields(string(raw)), " ") }
