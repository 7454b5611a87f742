//go:build terrace_static

package terrace

// The static library becomes part of the program, which then needs no libterrace where it runs.

// #cgo pkg-config: terrace-static
import "C"
