//go:build !terrace_static

package terrace

// The shared library: pkg-config finds it in the prefix of `make install`, and the loader in its
// usual folders or in LD_LIBRARY_PATH.

// #cgo pkg-config: terrace
import "C"
