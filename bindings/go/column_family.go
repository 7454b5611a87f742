package terrace

// #include "shim_transactions.h"
import "C"

import "unsafe"

// ColumnFamily is a key space of a store, with the methods of [DB] that read and write keys. All
// families of a store share one history: a [Batch] over several of them is atomic, and a [Snapshot]
// shows all of them at one moment. The methods of [DB] use the family "default", which every store
// has.
//
// Several goroutines may use a family at the same time. After [DB.DropColumnFamily] its methods fail
// with [ErrInvalid].
type ColumnFamily struct {
	space
	name   string
	handle *C.terrace_column_family_t
	gate   gate
}

// ColumnFamily returns the column family of this name. It fails with [ErrNotFound] if there is none.
func (db *DB) ColumnFamily(name string) (*ColumnFamily, error) { return db.openFamily(name, 0) }

// CreateColumnFamily creates a column family, which survives a power cut when the call returns. It
// fails with [ErrInvalid] if the family exists. From the first new family on, LevelDB refuses to open
// the store.
func (db *DB) CreateColumnFamily(name string) (*ColumnFamily, error) { return db.openFamily(name, 1) }

func (db *DB) openFamily(name string, create C.int) (*ColumnFamily, error) {
	nameC, err := cString("name of a column family", name)
	if err != nil {
		return nil, err
	}
	defer freeString(nameC)
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	opened := C.go_family_open(db.handle, nameC, create)
	if err := failure(opened.error); err != nil {
		return nil, err
	}
	family := &ColumnFamily{name: name, handle: opened.family}
	family.reader = reader{db: db, family: family, options: db.options}
	family.gate.open.Store(true)
	db.adopt(family)
	return family, nil
}

// DropColumnFamily deletes the column family of this name with all its pairs. Iterators over it
// remain valid. It fails with [ErrNotFound] if there is no such family.
func (db *DB) DropColumnFamily(name string) error {
	nameC, err := cString("name of a column family", name)
	if err != nil {
		return err
	}
	defer freeString(nameC)
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_family_drop(db.handle, nameC))
}

// ColumnFamilies returns the names of all column families, "default" first.
func (db *DB) ColumnFamilies() ([]string, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	var count C.size_t
	list := C.terrace_list_column_families(db.handle, &count)
	defer C.terrace_list_column_families_destroy(list, count)
	names := make([]string, count)
	for at, name := range unsafe.Slice(list, count) {
		names[at] = C.GoString(name)
	}
	return names, nil
}

// Name returns the name of the family.
func (f *ColumnFamily) Name() string { return f.name }

// Release frees the handle, whose methods then return [ErrClosed]. The family itself remains. A
// second Release does nothing.
func (f *ColumnFamily) Release() {
	if f.db == nil || f.db.gate.enter() != nil {
		return // closing the store has released the family
	}
	defer f.db.gate.leave()
	if f.gate.shut() && f.db.release(f) {
		f.destroy()
	}
}

func (f *ColumnFamily) destroy() { C.terrace_column_family_destroy(f.handle) }

// c returns the C handle; nil for the default family. The caller is in the gate of the family.
func (f *ColumnFamily) c() *C.terrace_column_family_t {
	if f == nil {
		return nil
	}
	return f.handle
}

// enterFamily admits a call to the family, whose store has admitted it. Every call may use the
// default family, which is nil.
func (f *ColumnFamily) enterFamily() error {
	if f == nil {
		return nil
	}
	return f.gate.enter()
}

// enterIn works like enterFamily, and refuses a family of another store than db.
func (f *ColumnFamily) enterIn(db *DB) error {
	switch {
	case f == nil:
		return nil
	case f.db == nil:
		return ErrClosed // a zero ColumnFamily
	case f.db != db:
		return invalid("column family %q belongs to another open store", f.name)
	}
	return f.gate.enter()
}

func (f *ColumnFamily) leaveFamily() {
	if f != nil {
		f.gate.leave()
	}
}
