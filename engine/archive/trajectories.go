package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7c27e6b8/whale/engine"
)

const (
	trajectorySuffix = ".jsonl.zst"
	// perFrame rollouts make one zstd frame, so that a reader can start on a file, and
	// a damaged file is readable up to the damage.
	perFrame = 64
	// decoderMemory bounds what one frame may claim to need.
	decoderMemory = 1 << 30
)

// ErrCut: the file ends inside a frame. What came before it was returned.
var ErrCut = errors.New("trajectory file is cut")

// encodeTrajectories is the content of a trajectory file.
func encodeTrajectories(ts []*engine.Trajectory) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer encoder.Close() // writes nowhere
	var out []byte
	for from := 0; from < len(ts); from += perFrame {
		var lines bytes.Buffer
		for _, t := range ts[from:min(from+perFrame, len(ts))] {
			line, err := json.Marshal(t)
			if err != nil {
				return nil, fmt.Errorf("rollout %s/%d: %w", t.Task, t.Sample, err)
			}
			lines.Write(line)
			lines.WriteByte('\n')
		}
		out = encoder.EncodeAll(lines.Bytes(), out)
	}
	return out, nil
}

// ReadTrajectories reads a trajectory file: JSON lines in zstd frames. It returns what
// is readable, with ErrCut when the last frame is not complete.
func ReadTrajectories(r io.Reader) ([]*engine.Trajectory, error) {
	decoder, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(decoderMemory))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	lines := bufio.NewReader(decoder)
	var ts []*engine.Trajectory
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return ts, nil
		case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
			return ts, ErrCut
		case err != nil:
			return ts, err
		}
		var t engine.Trajectory
		if err := json.Unmarshal(line, &t); err != nil {
			return ts, fmt.Errorf("rollout %d: %w", len(ts)+1, err)
		}
		ts = append(ts, &t)
	}
}
