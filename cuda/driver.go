package cuda

/*
#include <stdlib.h>
#include "card.h"
*/
import "C"

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// CardEnv names the environment variable with the number of the card to use, 0 if empty.
// CUDA_VISIBLE_DEVICES counts before it.
const CardEnv = "WHALE_CUDA_CARD"

// card is a card that can be opened, and the libraries that serve it.
type card struct {
	ordinal      int
	name, arch   string // "NVIDIA H200", "sm_90": what its kernels are compiled for
	driver       int    // CUDA version of the driver, 12040 is 12.4
	driverPath   string
	compilerPath string
	blasPath     string // "" if there is no cuBLASLt
	compiler     *nvrtc
}

// least version of NVRTC that the kernels are written for, as nvrtc.version.
const leastNVRTC = 11004

// found calls use for each place where a library may be until one holds a library, whether
// it will do or not.
func found(name string, places []string, use func(path string, why *C.char) C.whale_status) (string, error) {
	why := (*C.char)(C.calloc(1, C.card_why))
	defer C.free(unsafe.Pointer(why))
	for _, path := range places {
		switch use(path, why) {
		case C.WHALE_OK:
			return path, nil
		case C.WHALE_BAD_SHAPE: // nothing there
		default:
			return path, errors.New(C.GoString(why))
		}
	}
	return "", fmt.Errorf("%s is in none of the usual places (%s names folders)", name, LibrariesEnv)
}

// withPath calls f with a path as C has it.
func withPath(path string, f func(*C.char) C.whale_status) C.whale_status {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	return f(cpath)
}

// findCard looks for a card and its libraries; the caller closes its compiler. The error is one line that says what is missing.
func findCard() (*card, error) {
	c := &card{}
	var err error
	if c.ordinal, err = strconv.Atoi(cmp.Or(os.Getenv(CardEnv), "0")); err != nil || c.ordinal < 0 {
		return nil, fmt.Errorf("%s is %q, not the number of a card", CardEnv, os.Getenv(CardEnv))
	}
	var is C.driver_card
	c.driverPath, err = found("the NVIDIA driver (libcuda)", libraryPlaces(driverLibrary), func(path string, why *C.char) C.whale_status {
		return withPath(path, func(p *C.char) C.whale_status { return C.driver_probe(p, C.int(c.ordinal), &is, why) })
	})
	if err != nil {
		return nil, err
	}
	c.name, c.driver = C.GoString(&is.name[0]), int(is.driver)
	var arch C.int
	c.compilerPath, err = found("NVRTC (libnvrtc)", libraryPlaces(compilerLibrary), func(path string, why *C.char) C.whale_status {
		return withPath(path, func(p *C.char) C.whale_status { return C.driver_arch(p, is.major, is.minor, &arch, why) })
	})
	if err != nil {
		return nil, err
	}
	c.arch = fmt.Sprintf("sm_%d", int(arch))
	if c.compiler, err = openNVRTC(c.compilerPath); err != nil {
		return nil, err
	}
	if v := c.compiler.version; v < leastNVRTC {
		c.compiler.close()
		return nil, fmt.Errorf("NVRTC is %d.%d, the kernels need %d.%d", v/1000, v%1000, leastNVRTC/1000, leastNVRTC%1000)
	}
	// Without cuBLASLt the device multiplies with kernels of its own.
	c.blasPath, err = found("cuBLASLt", libraryPlaces(blasLibrary), func(path string, why *C.char) C.whale_status {
		return withPath(path, func(p *C.char) C.whale_status { return C.driver_blas(p, why) })
	})
	if err != nil {
		c.blasPath = ""
	}
	return c, nil
}

// CardMissing says in one line why there is no CUDA card to use, and is nil if there is one.
func CardMissing() error {
	c, err := findCard()
	if err == nil {
		c.compiler.close()
	}
	return err
}

var cubinMu sync.Mutex // one compilation at a time; another process may do the same beside us

// where is the text that driver_open wants: folder of cubins, libraries, number of the card.
func (c *card) where() (string, error) {
	cubinMu.Lock()
	defer cubinMu.Unlock()
	folder, err := c.cubins()
	if err != nil {
		return "", err
	}
	return strings.Join([]string{folder, c.driverPath, c.blasPath, strconv.Itoa(c.ordinal)}, "\n"), nil
}

const sumsFile = "sums" // lists the cubins of a folder with their hashes; the folder is whole if they agree

// cubins is the folder of compiled kernels. It is made once for each source, driver, compiler
// and architecture, and again if something in it is not what was written.
func (c *card) cubins() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	name, err := c.cubinName()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "whale")
	folder := filepath.Join(cache, name)
	if whole(folder) {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("compiled kernels: %w", err)
	}
	dir, err := os.MkdirTemp(cache, "cuda-build-")
	if err != nil {
		return "", fmt.Errorf("compiled kernels: %w", err)
	}
	err = c.compileAll(dir)
	if err == nil {
		err = os.RemoveAll(folder) // was not whole
	}
	if err == nil {
		err = os.Rename(dir, folder)
	}
	if err != nil && whole(folder) { // another process was faster
		err = nil
	}
	return folder, errors.Join(err, os.RemoveAll(dir))
}

func (c *card) cubinName() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, c.driver, c.compiler.version, c.arch)
	err := fs.WalkDir(sources, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(path, "simt/") {
			return err
		}
		data, err := sources.ReadFile(path)
		fmt.Fprintln(h, path, len(data))
		h.Write(data)
		return err
	})
	return "cuda-" + c.arch + "-" + hex.EncodeToString(h.Sum(nil)[:12]), err
}

// compileAll writes the cubin of every .cu file and their sums to a folder.
func (c *card) compileAll(dir string) error {
	units, err := fs.Glob(sources, "*.cu")
	if err != nil {
		return err
	}
	errs, sums := make([]error, len(units)), make([]string, len(units))
	slots := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i, unit := range units {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			cubin, _, err := c.compiler.compile(unit, c.arch)
			file := strings.TrimSuffix(unit, ".cu") + ".cubin"
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), cubin, 0o644)
			}
			errs[i], sums[i] = err, fmt.Sprintf("%x %s\n", sha256.Sum256(cubin), file)
		})
	}
	all.Wait()
	for _, err := range errs { // one says it: they fail for the same reason
		if err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(strings.Join(sums, "")), 0o644)
}

// whole reports whether a folder holds what its sums say.
func whole(folder string) bool {
	sums, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil || len(sums) == 0 {
		return false
	}
	for line := range strings.Lines(string(sums)) {
		sum, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		cubin, err := os.ReadFile(filepath.Join(folder, filepath.Base(file)))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(cubin)) != sum {
			return false
		}
	}
	return true
}
