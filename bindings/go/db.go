package terrace

// #include "shim.h"
import "C"

import "sync"

// DB is an open store. Its methods may be called from several goroutines at the same time. After
// [DB.Close] they return [ErrClosed].
type DB struct {
	space
	handle        *C.leveldb_t
	gate          gate
	plain, synced *C.leveldb_writeoptions_t

	mu       sync.Mutex // held briefly, and never during a call of the engine that waits
	children map[child]struct{}
}

// A child is an iterator, a snapshot, a column family or a transaction. It holds C memory that pins the store's files.
type child interface {
	// destroy frees the C memory. The caller has removed the child from the store's children, and
	// no call uses it.
	destroy()
}

// Open opens the store in directory path, and creates it if it does not exist. It fails with
// [ErrLocked] while the store is open, in this process or in another one, and with [ErrCorrupt] if
// bytes cannot be those that were written.
func Open(path string, options *Options) (*DB, error) {
	return open(path, options, C.go_open_write)
}

// OpenReadOnly opens the store in directory path, and changes nothing in it. Other readers may have
// the store open, but no writer. Writes fail with [ErrReadOnly].
func OpenReadOnly(path string, options *Options) (*DB, error) {
	return open(path, options, C.go_open_read)
}

// OpenInMemory opens a new, empty store in memory. Close discards it.
func OpenInMemory(options *Options) (*DB, error) {
	return open("", options, C.go_open_memory)
}

func open(path string, options *Options, how C.int) (*DB, error) {
	name, err := cString("path", path)
	if err != nil {
		return nil, err
	}
	defer freeString(name)
	var db *DB
	err = options.with(func(options *C.leveldb_options_t) error {
		opened := C.go_open(options, name, how)
		if err := failure(opened.error); err != nil {
			return err
		}
		db = newDB(opened.db)
		return nil
	})
	return db, err
}

func newDB(handle *C.leveldb_t) *DB {
	db := &DB{
		handle:   handle,
		plain:    C.leveldb_writeoptions_create(),
		synced:   C.leveldb_writeoptions_create(),
		children: map[child]struct{}{},
	}
	C.leveldb_writeoptions_set_sync(db.synced, 1)
	db.reader = reader{db: db, options: C.go_readoptions_create(nil)}
	db.gate.open.Store(true)
	return db
}

// Close makes all writes durable, ends background work and unlocks the directory. It waits for
// calls in other goroutines, and closes the iterators and snapshots of the store. It returns the
// error that prevented the last writes from becoming durable; the store is closed even then. A
// second Close returns [ErrClosed].
func (db *DB) Close() error {
	if !db.gate.shut() {
		return ErrClosed
	}
	for child := range db.children {
		child.destroy()
	}
	db.children = nil
	C.go_readoptions_destroy(db.options)
	C.leveldb_writeoptions_destroy(db.plain)
	C.leveldb_writeoptions_destroy(db.synced)
	return failure(C.go_close(db.handle))
}

// adopt adds a child. The caller is in the gate.
func (db *DB) adopt(child child) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.children[child] = struct{}{}
}

// release removes a child, and returns whether the caller has to destroy it. The caller is in the
// gate.
func (db *DB) release(child child) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	_, present := db.children[child]
	delete(db.children, child)
	return present
}

// Destroy deletes the files of the store in directory path, and no other files. The store need not
// exist. It fails with [ErrLocked] while the store is open.
func Destroy(path string) error {
	return onPath(path, nil, func(options *C.leveldb_options_t, name *C.char) C.go_error {
		return C.go_destroy(options, name)
	})
}

// Repair salvages the readable pairs of a store that cannot be opened into a new store at path. The
// damaged store is kept as path with the suffix ".damaged-1", or -2 and so on. It fails with
// [ErrLocked] while the store is open. Try [Open] first: a store that opens needs no repair.
func Repair(path string, options *Options) error {
	return onPath(path, options, func(options *C.leveldb_options_t, name *C.char) C.go_error {
		return C.go_repair(options, name)
	})
}

// onPath calls act with options and a path in C's form.
func onPath(path string, options *Options, act func(*C.leveldb_options_t, *C.char) C.go_error) error {
	name, err := cString("path", path)
	if err != nil {
		return err
	}
	defer freeString(name)
	return options.with(func(options *C.leveldb_options_t) error { return failure(act(options, name)) })
}
