package terrace

// #include "shim.h"
import "C"

import (
	"strings"
	"unsafe"
)

// Options for opening a store. Nil means the default options.
type Options struct {
	// Preset names the values of all options that Set does not have: "leveldb" for LevelDB's
	// values, for example. Empty means "default".
	Preset string
	// Set sets options by name, for example {"write_buffer_size": "64MiB"}. The page "Options" of
	// the documentation lists the names and the values.
	Set map[string]string
	// ErrorIfMissing refuses to create a store. By default an open creates it.
	ErrorIfMissing bool
	// ErrorIfExists refuses to open a store that exists.
	ErrorIfExists bool
}

// ReadOptions for one read. Nil means the default options.
type ReadOptions struct {
	// SkipChecksums does not verify the checksums of blocks that are read from storage. A read may
	// then return damaged bytes as a value.
	SkipChecksums bool
	// SkipCache does not keep the blocks that are read in the block cache.
	SkipCache bool
}

// WriteOptions for one write. Nil means the default options: the write survives the end of the
// process, and a power cut only after a sync or [DB.WaitDurable].
type WriteOptions struct {
	// Sync makes the write and all earlier ones survive a power cut before the call returns.
	Sync bool
	// DisableWAL writes no entry into the write-ahead log, which makes bulk loads that can be
	// repeated cheaper. The end of the process loses such a write and every later write without
	// Sync, until a write with Sync, [DB.WaitDurable] or [DB.Close]. It cannot be combined with
	// Sync, and [DB.DeleteRange] refuses it.
	DisableWAL bool
}

// Sync is the WriteOptions of a write that survives a power cut.
var Sync = &WriteOptions{Sync: true}

// Range is a range of keys in bytewise order: from Start (included) to Limit (excluded). A nil
// Start or Limit is no bound.
type Range struct {
	Start, Limit []byte
}

// Prefix returns the range of all keys that begin with prefix.
func Prefix(prefix []byte) *Range {
	start := append([]byte{}, prefix...)
	for last := len(start) - 1; last >= 0; last-- {
		if start[last] != 0xff {
			limit := append([]byte{}, start[:last+1]...)
			limit[last]++
			return &Range{start, limit}
		}
	}
	return &Range{Start: start}
}

// with calls use with the options in C's form, which live until it returns.
func (o *Options) with(use func(*C.leveldb_options_t) error) error {
	if o == nil {
		o = &Options{}
	}
	handle := C.leveldb_options_create()
	defer C.leveldb_options_destroy(handle)
	C.leveldb_options_set_create_if_missing(handle, flag(!o.ErrorIfMissing))
	C.leveldb_options_set_error_if_exists(handle, flag(o.ErrorIfExists))
	preset := o.Preset
	if preset == "" {
		preset = "default"
	}
	if err := setOption(handle, preset, nil); err != nil {
		return err
	}
	refuse := "refuse" // the C interface salvages by default, as LevelDB does
	if err := setOption(handle, "recovery", &refuse); err != nil {
		return err
	}
	for name, value := range o.Set {
		if err := setOption(handle, name, &value); err != nil {
			return err
		}
	}
	return use(handle)
}

// setOption sets an option by name, or the preset if value is nil.
func setOption(handle *C.leveldb_options_t, name string, value *string) error {
	nameC, err := cString("name of an option", name)
	if err != nil {
		return err
	}
	defer freeString(nameC)
	if value == nil {
		return failure(C.go_options_preset(handle, nameC))
	}
	valueC, err := cString("value of option "+name, *value)
	if err != nil {
		return err
	}
	defer freeString(valueC)
	return failure(C.go_options_set(handle, nameC, valueC))
}

// cString returns a copy of text for C, which the caller frees. C would cut the text at a zero
// byte, so such a text is refused.
func cString(what, text string) (*C.char, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, invalid("the %s contains a zero byte: %q", what, text)
	}
	return C.CString(text), nil
}

func freeString(text *C.char) { C.free(unsafe.Pointer(text)) }

func flag(yes bool) C.uint8_t {
	if yes {
		return 1
	}
	return 0
}

// bytesC returns the address of bytes for the duration of a call; nil for nil.
func bytesC(bytes []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes))) }

func lengthC(bytes []byte) C.size_t { return C.size_t(len(bytes)) }
