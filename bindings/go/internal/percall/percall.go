// Package percall scans a store without the chunks of package terrace, as a measure for them: once
// with a loop in C, and once with calls from Go for each pair. It also looks up keys with a loop in
// C. It is for benchmarks.
package percall

// #cgo !terrace_static pkg-config: terrace
// #cgo terrace_static pkg-config: terrace-static
// #include <stdlib.h>
// #include <terrace/c.h>
//
// // Sums the bytes of all pairs, as a C program scans a store.
// static uint64_t scan(leveldb_iterator_t* it) {
//   uint64_t sum = 0;
//   for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
//     size_t key, value;
//     const char* bytes = leveldb_iter_key(it, &key);
//     sum += key + (key > 0 ? (unsigned char)bytes[key - 1] : 0);
//     bytes = leveldb_iter_value(it, &value);
//     sum += value + (value > 0 ? (unsigned char)bytes[value - 1] : 0);
//   }
//   return sum;
// }
//
// // Looks up `count` of the keys 0, 7919, 15838 and so on modulo `keys`, as 8 bytes, most
// // significant byte first, and 8 zeros. Returns the number of those that exist.
// static uint64_t get(leveldb_t* db, leveldb_readoptions_t* reads, uint64_t count, uint64_t keys) {
//   uint64_t found = 0;
//   for (uint64_t at = 0; at < count; at++) {
//     char key[16] = {0}, *error = NULL;
//     uint64_t number = at * 7919 % keys;
//     for (int byte = 0; byte < 8; byte++) key[byte] = (char)(number >> (56 - 8 * byte));
//     size_t length;
//     char* value = leveldb_get(db, reads, key, sizeof key, &length, &error);
//     if (value != NULL) found++;
//     leveldb_free(value);
//     leveldb_free(error);
//   }
//   return found;
// }
import "C"

import (
	"errors"
	"unsafe"
)

// Store is an open store.
type Store struct {
	db    *C.leveldb_t
	reads *C.leveldb_readoptions_t
}

// Open opens the store in directory path for reading.
func Open(path string) (*Store, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	options := C.leveldb_options_create()
	defer C.leveldb_options_destroy(options)
	var text *C.char
	db := C.terrace_open_read_only(options, name, &text)
	if db == nil {
		defer C.leveldb_free(unsafe.Pointer(text))
		return nil, errors.New(C.GoString(text))
	}
	reads := C.leveldb_readoptions_create()
	C.leveldb_readoptions_set_verify_checksums(reads, 1) // as package terrace
	return &Store{db, reads}, nil
}

// Close closes the store.
func (s *Store) Close() {
	C.leveldb_readoptions_destroy(s.reads)
	C.leveldb_close(s.db)
}

// ScanInC sums the bytes of all pairs in one call.
func (s *Store) ScanInC() uint64 {
	it := C.leveldb_create_iterator(s.db, s.reads)
	defer C.leveldb_iter_destroy(it)
	return uint64(C.scan(it))
}

// ScanPerPair sums the bytes of all pairs with four calls for each pair.
func (s *Store) ScanPerPair() uint64 {
	it := C.leveldb_create_iterator(s.db, s.reads)
	defer C.leveldb_iter_destroy(it)
	var sum uint64
	for C.leveldb_iter_seek_to_first(it); C.leveldb_iter_valid(it) != 0; C.leveldb_iter_next(it) {
		var key, value C.size_t
		bytes := C.leveldb_iter_key(it, &key)
		sum += Sum(unsafe.Slice((*byte)(unsafe.Pointer(bytes)), key))
		bytes = C.leveldb_iter_value(it, &value)
		sum += Sum(unsafe.Slice((*byte)(unsafe.Pointer(bytes)), value))
	}
	return sum
}

// GetInC looks up count keys in one call: multiples of 7919, modulo keys. It returns the number of
// those that exist.
func (s *Store) GetInC(count, keys int) int {
	return int(C.get(s.db, s.reads, C.uint64_t(count), C.uint64_t(keys)))
}

// Sum returns the length of bytes plus the last byte, so that a scan reads what it finds.
func Sum(bytes []byte) uint64 {
	sum := uint64(len(bytes))
	if len(bytes) > 0 {
		sum += uint64(bytes[len(bytes)-1])
	}
	return sum
}

// Call makes the cheapest call into C.
func Call() { C.leveldb_major_version() }
