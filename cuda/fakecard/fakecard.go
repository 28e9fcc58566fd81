// Package fakecard leads the device "cuda" to libraries that only look like NVIDIA's, so that
// all of it runs on a machine without a card: kernels by simt, memory of the machine,
// failures on demand (cuda/testdata/fake/fake.h lists them). For tests.
//
// It may not know the cuda package, whose tests use it too. It needs gcc and this source tree.
package fakecard

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// files are the names under which the three libraries are looked for.
var files = []string{"libcuda.so.1", "libnvrtc.so.12", "libcublasLt.so.12"}

// Card is a fake that the environment of a test points to.
type Card struct {
	t       testing.TB
	dir     string
	log     string
	kernels string
}

// Use makes the fake for the length of a test. kernels is the library of cuda.SIMTKernels; gone
// are symbols of the driver that it lacks.
func Use(t testing.TB, kernels string, gone ...string) *Card {
	t.Helper()
	c := &Card{t: t, dir: t.TempDir(), kernels: kernels}
	c.log = filepath.Join(c.dir, "log")
	if err := Make(kernels, c.dir, gone...); err != nil {
		t.Fatal(err)
	}
	for name, value := range c.env() {
		if setter, ok := t.(interface{ Setenv(key, value string) }); ok {
			setter.Setenv(name, value)
		}
	}
	return c
}

func (c *Card) env() map[string]string {
	return map[string]string{"WHALE_CUDA_LIBS": c.dir, "XDG_CACHE_HOME": filepath.Join(c.dir, "cache"), "FAKE_KERNELS": c.kernels, "FAKE_LOG": c.log}
}

// Cache is the folder of compiled kernels in this test.
func (c *Card) Cache() string { return filepath.Join(c.dir, "cache", "whale") }

// Lose takes the nth library away: 0 the driver, 1 NVRTC, 2 cuBLASLt.
func (c *Card) Lose(nth int) {
	c.t.Helper()
	if err := os.Remove(filepath.Join(c.dir, files[nth])); err != nil {
		c.t.Fatal(err)
	}
}

// Happened counts the lines of the fake's log that begin with some words, and is the number of
// the last one.
func (c *Card) Happened(words string) (times, last int) {
	c.t.Helper()
	text, err := os.ReadFile(c.log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), words+" "); ok {
			times++
			if last, err = strconv.Atoi(rest); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return times, last
}

// Make puts the three libraries into a folder. They are compiled once and kept beside the kernels.
func Make(kernels, dir string, gone ...string) error {
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(here))
	fake := filepath.Join(root, "testdata", "fake")
	args := []string{"-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"}
	for _, symbol := range gone {
		args = append(args, "-D"+symbol+"=gone_"+symbol)
	}
	h := sha256.New()
	fmt.Fprintln(h, args)
	for _, file := range []string{"testdata/fake/driver.c", "testdata/fake/libraries.c", "testdata/fake/fake.h", "driver.h", "card.h", "gpu.h", "kernels.h", "whale.h", "simt/job.h"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return fmt.Errorf("fake card: %w", err)
		}
		h.Write(data)
	}
	made := filepath.Join(filepath.Dir(kernels), fmt.Sprintf("fake-%x.so", h.Sum(nil)[:12]))
	if _, err := os.Stat(made); err != nil {
		beside := fmt.Sprintf("%s.%d", made, os.Getpid())
		args = append(args, filepath.Join(fake, "driver.c"), filepath.Join(fake, "libraries.c"), "-ldl", "-o", beside)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil || len(out) > 0 {
			return fmt.Errorf("fake card: gcc: %v\n%s", err, bytes.TrimSpace(out))
		}
		if err := os.Rename(beside, made); err != nil {
			return fmt.Errorf("fake card: %w", err)
		}
	}
	for _, file := range files {
		if err := os.Symlink(made, filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("fake card: %w", err)
		}
	}
	return nil
}
