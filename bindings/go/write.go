package terrace

// #cgo noescape go_put
// #cgo nocallback go_put
// #cgo noescape go_delete
// #cgo nocallback go_delete
// #cgo noescape go_write
// #cgo nocallback go_write
// #include "shim.h"
import "C"

// Put sets key to value.
func (db *DB) Put(key, value []byte, options *WriteOptions) error {
	if options != nil && options.DisableWAL {
		var batch Batch
		batch.Put(key, value)
		return db.Write(&batch, options)
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_put(db.handle, db.durability(options), bytesC(key), lengthC(key), bytesC(value), lengthC(value)))
}

// Delete deletes key, which need not exist.
func (db *DB) Delete(key []byte, options *WriteOptions) error {
	if options != nil && options.DisableWAL {
		var batch Batch
		batch.Delete(key)
		return db.Write(&batch, options)
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_delete(db.handle, db.durability(options), bytesC(key), lengthC(key)))
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
	how := db.durability(options)
	if options != nil && options.DisableWAL {
		if options.Sync {
			return invalid("a write with Sync needs a WAL: DisableWAL and Sync are both set")
		}
		how = nil
	}
	return failure(C.go_write(db.handle, how, bytesC(encoded), lengthC(encoded)))
}

// DeleteRange deletes all keys in the range. In a store that was created with the option
// range_tombstones=on this is one small write. In any other store it deletes key by key, and is
// then not atomic. Without a limit it deletes the keys that exist when the call begins.
func (db *DB) DeleteRange(keys Range, options *WriteOptions) error {
	if options != nil && options.DisableWAL {
		return invalid("DeleteRange writes to the WAL, and DisableWAL is set")
	}
	if keys.Limit == nil {
		last, err := db.lastKey(keys)
		if err != nil || last == nil {
			return err
		}
		keys.Limit = append(last, 0) // the next possible key
	}
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_delete_range(db.handle, db.durability(options),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit)))
}

// lastKey returns a copy of the last key of the range; nil if there is none.
func (db *DB) lastKey(keys Range) ([]byte, error) {
	it, err := db.NewIterator(&keys, nil)
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
