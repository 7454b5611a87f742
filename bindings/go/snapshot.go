package terrace

// #include "shim.h"
import "C"

// Snapshot is the state of a store at one moment. It has the read methods of [DB]. The store keeps
// the data of a snapshot until [Snapshot.Release]. Its methods may be called from several
// goroutines at the same time.
type Snapshot struct {
	reader
	gate gate
}

// Snapshot returns a snapshot of the present state of the store.
func (db *DB) Snapshot() (*Snapshot, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	s := &Snapshot{}
	s.reader = reader{db: db, snapshot: &s.gate, options: C.go_snapshot_create(db.handle)}
	s.gate.open.Store(true)
	db.adopt(s)
	return s, nil
}

// Release ends the snapshot, whose methods then return [ErrClosed]. Iterators that were made from
// it remain valid. A second Release does nothing.
func (s *Snapshot) Release() {
	if s.db == nil || s.db.gate.enter() != nil {
		return // closing the store has released the snapshot
	}
	defer s.db.gate.leave()
	if s.gate.shut() && s.db.release(s) {
		s.destroy()
	}
}

// FamilySnapshot is a column family in a snapshot. It has the read methods of [Snapshot], and ends
// with the snapshot.
type FamilySnapshot struct{ reader }

// ColumnFamily returns the snapshot of a column family. All families of a snapshot are of one moment.
func (s *Snapshot) ColumnFamily(family *ColumnFamily) (*FamilySnapshot, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := family.enterIn(s.db); err != nil {
		return nil, err
	}
	defer family.leaveFamily()
	return &FamilySnapshot{reader{db: s.db, family: family, snapshot: &s.gate, options: s.options}}, nil
}

func (s *Snapshot) destroy() { C.go_readoptions_destroy(s.options) }
