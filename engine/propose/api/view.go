package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-7c27e6b8/whale/engine/propose/desk"
)

// Bounds on what tools read and answer.
const (
	maxFile   = 32 << 20 // bytes of a file that is read or searched
	maxAnswer = 48 << 10 // bytes of one result
	maxLine   = 2000     // bytes of a line that is shown
	maxLines  = 1000     // lines of one Read
	maxFound  = 300      // paths or matches of one Glob or Grep
)

// Errors that a model is told.
var (
	errOutside = errors.New("outside of what you may write: only out/SLOT/harness.go and out/SLOT/meta.json")
	errHidden  = errors.New("no such file among what you may read: harnesses/, cycles/, accepted.json, evolution.md, brief.json, out/")
)

// view is the files that a model sees. Paths are relative, with slashes: what the run
// folder lays out for proposers, brief.json, and out/ with the slots, which alone can be
// written. Every access goes through an os.Root, so no path and no link leads out.
type view struct {
	run, desk, out *os.Root
	slots          int
}

func openView(d *desk.Desk, slots int) (*view, error) {
	v := &view{slots: slots}
	for _, r := range []struct {
		to   **os.Root
		path string
	}{{&v.run, d.Run}, {&v.desk, d.Folder}, {&v.out, d.Out}} {
		root, err := os.OpenRoot(r.path)
		if err != nil {
			return nil, errors.Join(err, v.close())
		}
		*r.to = root
	}
	return v, nil
}

func (v *view) close() error {
	var errs []error
	for _, r := range []*os.Root{v.run, v.desk, v.out} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// find resolves a path for reading: the root that it is in, and its name there.
func (v *view) find(name string) (*os.Root, string, error) {
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	rest, inOut := strings.CutPrefix(clean, "out/")
	switch {
	case name == "" || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../"):
		return nil, "", errHidden
	case clean == "brief.json":
		return v.desk, clean, nil
	case clean == "out":
		return v.out, ".", nil
	case inOut:
		return v.out, rest, nil
	case desk.Shown(clean):
		return v.run, clean, nil
	}
	return nil, "", errHidden
}

// text reads a file; what is no text is refused.
func (v *view) text(name string) ([]byte, error) {
	root, at, err := v.find(name)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(at)
	switch {
	case err != nil:
		return nil, told(name, err)
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder: use Glob", name)
	case !info.Mode().IsRegular():
		return nil, errHidden
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s is too large", name)
	}
	f, err := root.Open(at)
	if err != nil {
		return nil, told(name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, told(name, err)
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s is no text", name)
	}
	return text, nil
}

// told words a system's error without the paths of this machine.
func told(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// read is Read: lines with their numbers, from offset (1 = the first), at most limit.
func (v *view) read(name string, offset, limit int) (string, error) {
	text, err := v.text(name)
	if err != nil {
		return "", err
	}
	if limit <= 0 || limit > maxLines {
		limit = maxLines
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	from := min(max(offset, 1)-1, len(lines))
	var out strings.Builder
	to := from
	for ; to < len(lines) && to < from+limit && out.Len() < maxAnswer; to++ {
		fmt.Fprintf(&out, "%d\t%s\n", to+1, clip(string(lines[to])))
	}
	if to < len(lines) {
		fmt.Fprintf(&out, "(lines %d to %d of %d; go on with offset %d)\n", from+1, to, len(lines), to+1)
	}
	return out.String(), nil
}

func clip(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "... (cut)"
}

// each calls f with the files that can be read, in order.
func (v *view) each(ctx context.Context, f func(name string) error) error {
	if err := f("brief.json"); err != nil {
		return err
	}
	for _, r := range []struct {
		root   *os.Root
		prefix string
	}{{v.run, ""}, {v.out, "out/"}} {
		err := fs.WalkDir(r.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				return nil // gone, or not for us
			case name == ".":
				return nil
			case r.prefix == "" && !desk.Shown(name):
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			case !entry.Type().IsRegular():
				return nil
			}
			return f(r.prefix + name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// glob is Glob: the files whose path matches, ** for any folders.
func (v *view) glob(ctx context.Context, pattern string) (string, error) {
	match, err := globPattern(pattern)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	n := 0
	err = v.each(ctx, func(name string) error {
		if match.MatchString(name) {
			if n++; n <= maxFound {
				out.WriteString(name + "\n")
			}
		}
		return nil
	})
	if n > maxFound {
		fmt.Fprintf(&out, "(%d more)\n", n-maxFound)
	}
	if n == 0 {
		out.WriteString("(no file matches)\n")
	}
	return out.String(), err
}

// globPattern turns *, ? and ** into an expression over whole paths. A pattern without a
// slash matches names in any folder.
func globPattern(pattern string) (*regexp.Regexp, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	var e strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch {
		case strings.HasPrefix(pattern[i:], "**/"):
			e.WriteString("(.*/)?")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			e.WriteString(".*")
			i++
		case pattern[i] == '*':
			e.WriteString("[^/]*")
		case pattern[i] == '?':
			e.WriteString("[^/]")
		default:
			e.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return regexp.Compile("^" + e.String() + "$")
}

// grep is Grep: the lines that match, with file and number.
func (v *view) grep(ctx context.Context, expression, in string) (string, error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return "", err
	}
	if in == "" {
		in = "**"
	} else if strings.HasSuffix(in, "/") || !strings.ContainsAny(path.Base(in), "*?.") {
		in = strings.TrimSuffix(in, "/") + "/**"
	}
	where, err := globPattern(in)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	n := 0
	full := func() bool { return n >= maxFound || out.Len() >= maxAnswer }
	err = v.each(ctx, func(name string) error {
		if full() || !where.MatchString(name) {
			return nil
		}
		text, err := v.text(name)
		if err != nil {
			return nil // no text, or gone
		}
		for i, line := range strings.Split(string(text), "\n") {
			if !full() && match.MatchString(line) {
				n++
				out.WriteString(name + ":" + strconv.Itoa(i+1) + ":" + clip(line) + "\n")
			}
		}
		return nil
	})
	switch {
	case n == 0:
		out.WriteString("(no line matches)\n")
	case full():
		out.WriteString("(more lines may match: narrow the search)\n")
	}
	return out.String(), err
}

// slot checks a path for writing and returns it below out.
func (v *view) slot(name string) (string, error) {
	parts := strings.Split(path.Clean(strings.TrimPrefix(name, "./")), "/")
	if len(parts) != 3 || parts[0] != "out" || parts[2] != "harness.go" && parts[2] != "meta.json" {
		return "", errOutside
	}
	if n, err := strconv.Atoi(parts[1]); err != nil || n < 1 || n > v.slots || strconv.Itoa(n) != parts[1] {
		return "", fmt.Errorf("%w, slots are 1 to %d", errOutside, v.slots)
	}
	return path.Join(parts[1], parts[2]), nil
}

// write is Write: the whole content of a file in a slot.
func (v *view) write(name, content string) (string, error) {
	at, err := v.slot(name)
	if err != nil {
		return "", err
	}
	if len(content) > desk.MaxSource {
		return "", fmt.Errorf("%d bytes are too many; at most %d", len(content), desk.MaxSource)
	}
	if err := v.out.MkdirAll(path.Dir(at), 0o755); err != nil {
		return "", told(name, err)
	}
	if err := v.out.WriteFile(at, []byte(content), 0o644); err != nil {
		return "", told(name, err)
	}
	return fmt.Sprintf("wrote %d bytes to %s\n", len(content), name), nil
}

// edit is Edit: replaces a text that occurs once, or everywhere.
func (v *view) edit(name, before, after string, all bool) (string, error) {
	if _, err := v.slot(name); err != nil {
		return "", err
	}
	text, err := v.text(name)
	if err != nil {
		return "", err
	}
	switch n := strings.Count(string(text), before); {
	case before == "" || n == 0:
		return "", fmt.Errorf("old_string is not in %s", name)
	case n > 1 && !all:
		return "", fmt.Errorf("old_string is %d times in %s: write more of its surroundings, or set replace_all", n, name)
	}
	return v.write(name, strings.ReplaceAll(string(text), before, after))
}
