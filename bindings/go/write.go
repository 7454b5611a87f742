package terrace

// #cgo noescape go_put
// #cgo nocallback go_put
// #cgo noescape go_delete
// #cgo nocallback go_delete
// #cgo noescape go_write
// #cgo nocallback go_write
// #include "shim.h"
import "C"

import "unsafe"

// A space is a key space of a store, which can be read and written.
type space struct{ reader }

// Put sets key to value.
func (s *space) Put(key, value []byte, options *WriteOptions) error {
	if s.db != nil && options != nil && options.DisableWAL {
		var batch Batch
		batch.PutCF(s.family, key, value)
		return s.db.Write(&batch, options)
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return failure(C.go_put(s.db.handle, s.family.c(), s.db.durability(options), bytesC(key), lengthC(key), bytesC(value), lengthC(value)))
}

// Delete deletes key, which need not exist.
func (s *space) Delete(key []byte, options *WriteOptions) error {
	if s.db != nil && options != nil && options.DisableWAL {
		var batch Batch
		batch.DeleteCF(s.family, key)
		return s.db.Write(&batch, options)
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return failure(C.go_delete(s.db.handle, s.family.c(), s.db.durability(options), bytesC(key), lengthC(key)))
}

// Write applies the batch: all of its operations, in order, or none. The batch can be written
// again.
func (db *DB) Write(batch *Batch, options *WriteOptions) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	encoded, err := batch.encoded()
	if err != nil {
		return err
	}
	families := make([]*C.terrace_column_family_t, len(batch.families))
	for at, family := range batch.families {
		if err := family.enterIn(db); err != nil {
			return err
		}
		defer family.leaveFamily()
		families[at] = family.c()
	}
	how := db.durability(options)
	if options != nil && options.DisableWAL {
		if options.Sync {
			return invalid("a write with Sync needs a WAL: DisableWAL and Sync are both set")
		}
		how = nil
	}
	return failure(C.go_write(db.handle, how, unsafe.SliceData(families), C.size_t(len(families)),
		bytesC(encoded), lengthC(encoded)))
}

// DeleteRange deletes all keys in the range. In a store that was created with the option
// range_tombstones=on this is one small write. In any other store it deletes key by key, and is
// then not atomic. Without a limit it deletes the keys that exist when the call begins.
func (s *space) DeleteRange(keys Range, options *WriteOptions) error {
	if options != nil && options.DisableWAL {
		return invalid("DeleteRange writes to the WAL, and DisableWAL is set")
	}
	if keys.Limit == nil {
		last, err := s.lastKey(keys)
		if err != nil || last == nil {
			return err
		}
		keys.Limit = append(last, 0) // the next possible key
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return failure(C.go_delete_range(s.db.handle, s.family.c(), s.db.durability(options),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit)))
}

// lastKey returns a copy of the last key of the range; nil if there is none.
func (s *space) lastKey(keys Range) ([]byte, error) {
	it, err := s.NewIterator(&keys, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if !it.Last() {
		return nil, it.Error()
	}
	return append([]byte{}, it.Key()...), nil
}

// durability returns the C options. The caller is in the gate.
func (db *DB) durability(options *WriteOptions) *C.leveldb_writeoptions_t {
	if options != nil && options.Sync {
		return db.synced
	}
	return db.plain
}
