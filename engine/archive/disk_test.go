package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noted is a disk that notes in which order things are done to which names.
func noted(did *[]string) disk {
	note := func(what, path string) { *did = append(*did, what+" "+filepath.Base(path)) }
	d := realDisk()
	write, rename, sync := d.write, d.rename, d.sync
	d.write = func(f *os.File, b []byte) error { note("write", f.Name()); return write(f, b) }
	d.rename = func(from, to string) error { note("rename", to); return rename(from, to) }
	d.sync = func(f *os.File) error { note("sync", f.Name()); return sync(f) }
	return d
}

// What a power cut may leave behind is decided by the order of syncs and renames: content is
// on disk before its name is, and the name before anything may point to it.
func TestDisk_order(t *testing.T) {
	var did []string
	d := noted(&did)
	dir := filepath.Join(t.TempDir(), "run")
	temp := filepath.Join(dir, ".tmp-w")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	var l *log
	for _, c := range []struct {
		what string
		do   func() error
		want string
	}{
		{"a file", func() error { return d.put(filepath.Join(dir, "x"), []byte("1")) }, "write .tmp-x, sync .tmp-x, rename x, sync run"},
		{"a file of a folder", func() error { return d.create(filepath.Join(temp, "a"), []byte("1")) }, "write a, sync a"},
		{"a folder", func() error { return d.publish(temp, filepath.Join(dir, "w")) }, "sync .tmp-w, sync a, rename w, sync run"},
		{"a log", func() (err error) { l, err = openLog(d, filepath.Join(dir, "log"), 0); return err }, "sync log"},
		{"a line", func() error { return l.append([]byte("{}\n")) }, "write log, sync log"},
		{"a cut", func() error { return l.cut(0) }, "sync log"},
	} {
		did = nil
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(did, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if err := l.file.Close(); err != nil {
		t.Error(err)
	}
}
