package cuda

/*
#include <stdlib.h>
#include "nvrtc.h"
*/
import "C"

import (
	"fmt"
	"io/fs"
	"strings"
	"unsafe"
)

// nvrtc is NVIDIA's run-time compiler.
type nvrtc struct {
	ptr     *C.nvrtc
	version int // major * 1000 + minor
}

// openNVRTC opens the compiler at a path, or by a name that the loader finds; the caller closes it.
func openNVRTC(path string) (*nvrtc, error) {
	cpath, why := C.CString(path), (*C.char)(C.calloc(1, whyRoom))
	defer C.free(unsafe.Pointer(cpath))
	defer C.free(unsafe.Pointer(why))
	var version C.int
	ptr := C.nvrtc_open(cpath, &version, why, whyRoom)
	if ptr == nil {
		return nil, fmt.Errorf("nvrtc: %s", C.GoString(why))
	}
	return &nvrtc{ptr, int(version)}, nil
}

// close lets go of the compiler; closing twice does nothing.
func (n *nvrtc) close() {
	C.nvrtc_close(n.ptr)
	n.ptr = nil
}

// What NVRTC has built in instead of the headers of a C library.
const (
	stdintForCards = "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t; " +
		"typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;\n"
	stddefForCards = "\n"
)

// cardHeaders are the headers that a .cu file may include when it is compiled for a card.
func cardHeaders() (names, texts []string, err error) {
	names, texts = []string{"stdint.h", "stddef.h"}, []string{stdintForCards, stddefForCards}
	for _, pattern := range []string{"*.cuh", "*.h"} {
		files, err := fs.Glob(sources, pattern)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range files {
			data, err := sources.ReadFile(name)
			if err != nil {
				return nil, nil, err
			}
			names, texts = append(names, name), append(texts, string(data))
		}
	}
	return names, texts, nil
}

// compile makes the cubin of one .cu file for an architecture such as "sm_90". The log has
// registers and spills of each kernel, and warnings if there are any.
func (n *nvrtc) compile(unit, arch string) (cubin []byte, log string, err error) {
	text, err := sources.ReadFile(unit)
	if err != nil {
		return nil, "", err
	}
	names, texts, err := cardHeaders()
	if err != nil {
		return nil, "", err
	}
	var free []unsafe.Pointer
	defer func() {
		for _, p := range free {
			C.free(p)
		}
	}()
	cstring := func(s string) *C.char {
		c := C.CString(s)
		free = append(free, unsafe.Pointer(c))
		return c
	}
	list := func(all []string) **C.char {
		at := C.calloc(C.size_t(len(all)), C.size_t(unsafe.Sizeof((*C.char)(nil))))
		free = append(free, at)
		for i, s := range all {
			unsafe.Slice((**C.char)(at), len(all))[i] = cstring(s)
		}
		return (**C.char)(at)
	}
	source := C.nvrtc_source{name: cstring(unit), text: cstring(string(text)), headers: C.int(len(names)),
		header_names: list(names), header_texts: list(texts), arch: cstring(arch)}
	var out C.nvrtc_result
	why := (*C.char)(C.calloc(1, whyRoom))
	free = append(free, unsafe.Pointer(why))
	st := C.nvrtc_compile(n.ptr, &source, &out, why, whyRoom)
	free = append(free, unsafe.Pointer(out.image), unsafe.Pointer(out.log))
	log = C.GoString(out.log)
	if st != 0 {
		return nil, log, fmt.Errorf("nvrtc: %s: %s", C.GoString(why), strings.SplitN(log, "\n", 2)[0])
	}
	return C.GoBytes(unsafe.Pointer(out.image), C.int(out.size)), log, nil
}
