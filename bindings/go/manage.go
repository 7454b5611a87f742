package terrace

// #include "shim.h"
import "C"

import "unsafe"

// Flush writes the memtable into an SSTable.
func (db *DB) Flush() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_flush(db.handle))
}

// CompactRange compacts the SSTables with keys in the range, its limit included. This drops deleted
// and overwritten entries that no snapshot needs.
func (s *space) CompactRange(keys Range) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return failure(C.go_compact_range(s.db.handle, s.family.c(),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit)))
}

// ApproximateSize estimates the bytes of SSTables that the keys of the range use. Entries in
// memtables do not count.
func (s *space) ApproximateSize(keys Range) (uint64, error) {
	if keys.Limit == nil {
		last, err := s.lastKey(keys)
		if err != nil || last == nil {
			return 0, err
		}
		keys.Limit = append(last, 0)
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	size := C.go_approximate_size(s.db.handle, s.family.c(),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit))
	return uint64(size.number), failure(size.error)
}

// Checkpoint makes a copy of the store in directory path, which must not exist or be empty. On the
// same file system it uses hard links. The copy is an independent store, and survives a power cut
// when the call returns. Reads and writes continue during the call. The result is the sequence
// number of the last write in the copy.
func (db *DB) Checkpoint(path string) (uint64, error) {
	name, err := cString("path", path)
	if err != nil {
		return 0, err
	}
	defer freeString(name)
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	made := C.go_checkpoint(db.handle, name)
	return uint64(made.number), failure(made.error)
}

// Resume continues writes after a full disk ([ErrNoSpace]), once there is free space again. In a
// store that has not stopped it does nothing.
func (db *DB) Resume() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_resume(db.handle))
}

// Property returns a property of the store as a text, such as "leveldb.stats" or
// "leveldb.num-files-at-level0". It fails with [ErrNotFound] if there is no such property.
func (db *DB) Property(name string) (string, error) {
	nameC, err := cString("name of a property", name)
	if err != nil {
		return "", err
	}
	defer freeString(nameC)
	if err := db.enter(); err != nil {
		return "", err
	}
	defer db.leave()
	text := C.leveldb_property_value(db.handle, nameC)
	if text == nil {
		return "", &Error{ErrNotFound, "there is no property " + name}
	}
	defer C.leveldb_free(unsafe.Pointer(text))
	return C.GoString(text), nil
}
