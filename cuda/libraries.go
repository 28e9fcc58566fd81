package cuda

import (
	"os"
	"path/filepath"
	"slices"
)

// LibrariesEnv names the environment variable with folders (separated as in PATH) in which
// NVIDIA's libraries are looked for. If it is set, nothing else is searched.
const LibrariesEnv = "WHALE_CUDA_LIBS"

// library is one of NVIDIA's: the names of its file, newest first, and the folders of a Python
// wheel that may hold it.
type library struct {
	files  []string
	wheels []string
	driver bool // comes with the driver, never with a toolkit or a wheel
}

var (
	driverLibrary   = library{files: []string{"libcuda.so.1", "libcuda.so"}, driver: true}
	compilerLibrary = library{files: []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
		wheels: []string{"cu13", "cuda_nvrtc"}}
	blasLibrary = library{files: []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"},
		wheels: []string{"cu13", "cublas"}}
)

// libraryPlaces lists where a library may be, in the order in which they are tried: the folders
// of LibrariesEnv alone; else what the dynamic linker finds, toolkits, Python wheels.
func libraryPlaces(l library) (places []string) {
	add := func(folders ...string) {
		for _, dir := range folders {
			for _, file := range l.files {
				path := filepath.Join(dir, file)
				if _, err := os.Stat(path); err == nil && !slices.Contains(places, path) {
					places = append(places, path)
				}
			}
		}
	}
	if only, ok := os.LookupEnv(LibrariesEnv); ok {
		add(filepath.SplitList(only)...)
		return places
	}
	places = append(places, l.files...)
	if l.driver {
		add("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib")
		return places
	}
	for _, env := range []string{"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"} {
		if dir := os.Getenv(env); dir != "" {
			add(filepath.Join(dir, "lib64"), filepath.Join(dir, "lib"))
		}
	}
	add("/usr/local/cuda/lib64")
	add(newest("/usr/local/cuda-*/lib64")...)
	add("/opt/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")
	for _, root := range pythonRoots() {
		for _, wheel := range l.wheels {
			add(newest(filepath.Join(root, "lib*", "python3*", "*-packages", "nvidia", wheel, "lib"))...)
		}
	}
	return places
}

// pythonRoots are folders under which Python packages are installed.
func pythonRoots() []string {
	var roots []string
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := os.Getenv(env); dir != "" {
			roots = append(roots, dir)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	return append(roots, "/usr/local", "/usr", "/opt/conda")
}

// newest lists what a pattern finds, the last by name first.
func newest(pattern string) []string {
	list, err := filepath.Glob(pattern)
	if err != nil {
		return nil // the pattern holds a folder's name that is none
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}
