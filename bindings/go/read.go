package terrace

// #cgo noescape go_get
// #cgo nocallback go_get
// #cgo noescape go_multi_get
// #cgo nocallback go_multi_get
// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Values up to this number of bytes are copied during the lookup. For a longer one Go allocates the
// right size first, and copies it in a second step.
const shortValue = 512

// A reader looks up keys in a key space of a store, now or in a snapshot.
type reader struct {
	db       *DB
	family   *ColumnFamily // nil for the default one
	snapshot *gate         // nil for the present state
	options  C.go_readoptions
}

// enter admits a call to the store, to the family and to the snapshot. The call must leave.
func (r *reader) enter() error {
	if r.db == nil {
		return ErrClosed // a zero DB, ColumnFamily or Snapshot
	}
	if err := r.db.gate.enter(); err != nil {
		return err
	}
	if err := r.family.enterFamily(); err != nil {
		r.db.gate.leave()
		return err
	}
	if r.snapshot == nil {
		return nil
	}
	err := r.snapshot.enter()
	if err != nil {
		r.family.leaveFamily()
		r.db.gate.leave()
	}
	return err
}

func (r *reader) leave() {
	if r.snapshot != nil {
		r.snapshot.leave()
	}
	r.family.leaveFamily()
	r.db.gate.leave()
}

// how returns the C options. The caller is in the gates.
func (r *reader) how(options *ReadOptions) *C.leveldb_readoptions_t {
	at := 0
	if options != nil && options.SkipChecksums {
		at |= 1
	}
	if options != nil && options.SkipCache {
		at |= 2
	}
	return r.options.at[at]
}

// Get returns a copy of the value of key, or [ErrNotFound]. The value of an existing key is never
// nil.
func (r *reader) Get(key []byte, options *ReadOptions) ([]byte, error) {
	var short [shortValue]byte
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	found := C.go_get(r.db.handle, r.family.c(), r.how(options), bytesC(key), lengthC(key), bytesC(short[:]), shortValue)
	switch {
	case found.error.kind != 0:
		return nil, failure(found.error)
	case found.found == 0:
		return nil, ErrNotFound
	}
	value := make([]byte, found.length)
	if found.pinned == nil {
		copy(value, short[:])
	} else {
		copy(value, unsafe.Slice((*byte)(unsafe.Pointer(found.bytes)), found.length))
		C.terrace_pinned_destroy(found.pinned)
	}
	return value, nil
}

// Has returns whether key exists.
func (r *reader) Has(key []byte, options *ReadOptions) (bool, error) {
	if err := r.enter(); err != nil {
		return false, err
	}
	defer r.leave()
	found := C.go_get(r.db.handle, r.family.c(), r.how(options), bytesC(key), lengthC(key), nil, 0)
	C.terrace_pinned_destroy(found.pinned)
	return found.found != 0, failure(found.error)
}

// MultiGet returns copies of the values of keys as of one moment. The value of a key that does not
// exist is nil; that of an existing key is never nil. It is faster than one Get for each key,
// because the reads from storage overlap.
func (r *reader) MultiGet(keys [][]byte, options *ReadOptions) ([][]byte, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	values := make([][]byte, len(keys))
	if len(keys) == 0 {
		return values, nil
	}
	packed, lengths := pack(keys)
	count := C.size_t(len(keys))
	found := C.go_multi_get(r.db.handle, r.family.c(), r.how(options), count, bytesC(packed), unsafe.SliceData(lengths))
	defer C.go_values_free(found, count)
	if err := failure(found.error); err != nil {
		return nil, err
	}
	sizes := unsafe.Slice(found.lengths, len(keys))
	for at, value := range unsafe.Slice(found.values, len(keys)) {
		if value != nil {
			values[at] = make([]byte, sizes[at])
			copy(values[at], unsafe.Slice((*byte)(unsafe.Pointer(value)), sizes[at]))
		}
	}
	runtime.KeepAlive(packed)
	return values, nil
}

// pack returns the keys one after the other, and their lengths.
func pack(keys [][]byte) ([]byte, []C.size_t) {
	total := 0
	lengths := make([]C.size_t, len(keys))
	for at, key := range keys {
		lengths[at] = lengthC(key)
		total += len(key)
	}
	packed := make([]byte, 0, total)
	for _, key := range keys {
		packed = append(packed, key...)
	}
	return packed, lengths
}

// NewIterator returns an iterator over the keys in the range, or over all keys if it is nil. The
// iterator sees the store as it is now, or the snapshot. It stands before the first key. Close it
// when it is no longer used: it keeps the files that it reads.
func (r *reader) NewIterator(keys *Range, options *ReadOptions) (*Iterator, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	if keys == nil {
		keys = &Range{}
	}
	handle := C.go_iterator(r.db.handle, r.family.c(), r.how(options),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit))
	it := &Iterator{db: r.db, handle: handle}
	r.db.adopt(it)
	return it, nil
}
