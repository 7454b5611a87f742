package terrace

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"
)

// The kinds of errors. An error of this package matches one of them in [errors.Is]. Its text names
// the operation and the object; it is for people and may change.
var (
	// ErrNotFound: the key does not exist, or there is no property or column family of this name.
	ErrNotFound = errors.New("terrace: not found")
	// ErrClosed: the store, column family, snapshot or iterator was closed, or the transaction has
	// ended.
	ErrClosed = errors.New("terrace: closed")
	// ErrCorrupt: bytes or a file of the store are wrong or missing. Restore the store from a copy,
	// or use [Repair].
	ErrCorrupt = errors.New("terrace: corrupt")
	// ErrIO: the operating system reported an error.
	ErrIO = errors.New("terrace: I/O error")
	// ErrNoSpace: the disk is full. Writes stop and reads continue. Free some space, and then call
	// [DB.Resume] or reopen the store. Such an error matches ErrIO, too.
	ErrNoSpace = fmt.Errorf("%w: no space", ErrIO)
	// ErrLocked: the store is open, in this process or in another one.
	ErrLocked = errors.New("terrace: locked")
	// ErrNotExist: there is no store at this path. Such an error matches [fs.ErrNotExist], too.
	ErrNotExist = fmt.Errorf("terrace: no store: %w", fs.ErrNotExist)
	// ErrInvalid: an argument or an option is not valid. Nothing was done.
	ErrInvalid = errors.New("terrace: invalid argument")
	// ErrNotSupported: the store was made without this feature, or needs a feature that this
	// version does not have.
	ErrNotSupported = errors.New("terrace: not supported")
	// ErrReadOnly: a write to a store that was opened for reading only.
	ErrReadOnly = errors.New("terrace: read-only")
	// ErrStopped: an earlier write or sync failed, so writes have stopped. Reads continue. Reopen
	// the store to write again.
	ErrStopped = errors.New("terrace: writes have stopped")
	// ErrRetryable: a transaction failed only because of other transactions or writes. Nothing was
	// written. Begin it again, as [DB.Transact] does. The three errors below match it, too.
	ErrRetryable = errors.New("terrace: transaction must begin again")
	// ErrConflict: another write changed what the transaction depends on.
	ErrConflict = fmt.Errorf("%w: conflict", ErrRetryable)
	// ErrLockTimeout: another transaction did not release a lock in time.
	ErrLockTimeout = fmt.Errorf("%w: lock timeout", ErrRetryable)
	// ErrDeadlock: the transaction would wait for a lock of one that waits for it. Roll it back.
	ErrDeadlock = fmt.Errorf("%w: deadlock", ErrRetryable)
	// ErrInternal: the engine has violated one of its invariants. Please report the text.
	ErrInternal = errors.New("terrace: internal error")
)

// Error is a failed operation of the engine.
type Error struct {
	kind error
	text string
}

// Error returns the engine's text.
func (e *Error) Error() string { return e.text }

// Unwrap returns the kind: one of the variables above, such as [ErrCorrupt].
func (e *Error) Unwrap() error { return e.kind }

var kinds = map[C.int]error{
	C.terrace_kind_corruption:    ErrCorrupt,
	C.terrace_kind_io_error:      ErrIO,
	C.terrace_kind_no_space:      ErrNoSpace,
	C.terrace_kind_in_use:        ErrLocked,
	C.terrace_kind_missing_store: ErrNotExist,
	C.terrace_kind_invalid:       ErrInvalid,
	C.terrace_kind_not_supported: ErrNotSupported,
	C.terrace_kind_read_only:     ErrReadOnly,
	C.terrace_kind_closed:        ErrClosed,
	C.terrace_kind_stopped:       ErrStopped,
	C.terrace_kind_forked:        ErrInvalid,
	C.terrace_kind_conflict:      ErrConflict,
	C.terrace_kind_lock_timeout:  ErrLockTimeout,
	C.terrace_kind_deadlock:      ErrDeadlock,

	C.terrace_kind_missing_column_family: ErrNotFound,
}

// failure returns the Go error for an error of the library, whose text it frees; nil for none.
func failure(e C.go_error) error {
	if e.kind == 0 {
		return nil
	}
	text := C.GoString(e.text)
	C.leveldb_free(unsafe.Pointer(e.text))
	kind, known := kinds[e.kind]
	if !known {
		kind = ErrInternal
	}
	return &Error{kind, text}
}

// invalid returns an error for a bad argument.
func invalid(format string, arguments ...any) error {
	return &Error{ErrInvalid, fmt.Sprintf(format, arguments...)}
}
