package terrace

// #cgo noescape go_transaction_get
// #cgo nocallback go_transaction_get
// #cgo noescape go_transaction_put
// #cgo nocallback go_transaction_put
// #cgo noescape go_transaction_delete
// #cgo nocallback go_transaction_delete
// #include "shim_transactions.h"
import "C"

import "unsafe"

// Get returns a copy of the value of key, or [ErrNotFound].
func (t *Transaction) Get(key []byte) ([]byte, error) { return t.get(nil, key, 0) }

// GetCF works like Get, in a column family.
func (t *Transaction) GetCF(family *ColumnFamily, key []byte) ([]byte, error) {
	return t.get(family, key, 0)
}

// GetForUpdate works like Get. The commit fails if another write changes the key, with every
// isolation. A pessimistic transaction locks the key, and waits if another one has the lock: the call
// may fail with [ErrLockTimeout] or [ErrDeadlock].
func (t *Transaction) GetForUpdate(key []byte) ([]byte, error) { return t.get(nil, key, 1) }

// GetForUpdateCF works like GetForUpdate, in a column family.
func (t *Transaction) GetForUpdateCF(family *ColumnFamily, key []byte) ([]byte, error) {
	return t.get(family, key, 1)
}

func (t *Transaction) get(family *ColumnFamily, key []byte, forUpdate C.int) ([]byte, error) {
	if err := t.enter(family); err != nil {
		return nil, err
	}
	defer t.leave(family)
	found := C.go_transaction_get(t.handle, family.c(), forUpdate, bytesC(key), lengthC(key))
	if err := failure(found.error); err != nil {
		return nil, err
	}
	if found.bytes == nil {
		return nil, ErrNotFound
	}
	defer C.leveldb_free(unsafe.Pointer(found.bytes))
	value := make([]byte, found.length)
	copy(value, unsafe.Slice((*byte)(unsafe.Pointer(found.bytes)), found.length))
	return value, nil
}

// Put sets key to value. A pessimistic transaction locks the key, as [Transaction.GetForUpdate] does.
func (t *Transaction) Put(key, value []byte) error { return t.PutCF(nil, key, value) }

// PutCF works like Put, in a column family.
func (t *Transaction) PutCF(family *ColumnFamily, key, value []byte) error {
	if err := t.enter(family); err != nil {
		return err
	}
	defer t.leave(family)
	return failure(C.go_transaction_put(t.handle, family.c(), bytesC(key), lengthC(key), bytesC(value), lengthC(value)))
}

// Delete deletes key, which need not exist. A pessimistic transaction locks the key.
func (t *Transaction) Delete(key []byte) error { return t.DeleteCF(nil, key) }

// DeleteCF works like Delete, in a column family.
func (t *Transaction) DeleteCF(family *ColumnFamily, key []byte) error {
	if err := t.enter(family); err != nil {
		return err
	}
	defer t.leave(family)
	return failure(C.go_transaction_delete(t.handle, family.c(), bytesC(key), lengthC(key)))
}

// DeleteRange deletes all keys in the range, which must have a limit, and locks none of them. The
// commit fails if another write changes a key of the range.
func (t *Transaction) DeleteRange(keys Range) error { return t.DeleteRangeCF(nil, keys) }

// DeleteRangeCF works like DeleteRange, in a column family.
func (t *Transaction) DeleteRangeCF(family *ColumnFamily, keys Range) error {
	if err := t.enter(family); err != nil {
		return err
	}
	defer t.leave(family)
	if keys.Limit == nil {
		return invalid("a range delete in a transaction needs a limit")
	}
	return failure(C.go_transaction_delete_range(t.handle, family.c(),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit)))
}

// NewIterator returns an iterator over the pairs of the range that the transaction sees, or over all
// if it is nil. Each First, Last, Seek and change of direction shows the writes of the transaction
// until then. It reads no pair in advance, because a write to a pair that it has read is a conflict.
// After the end of the transaction it fails with [ErrInvalid]. Close it when it is no longer used.
func (t *Transaction) NewIterator(keys *Range, options *ReadOptions) (*Iterator, error) {
	return t.NewIteratorCF(nil, keys, options)
}

// NewIteratorCF works like NewIterator, in a column family.
func (t *Transaction) NewIteratorCF(family *ColumnFamily, keys *Range, options *ReadOptions) (*Iterator, error) {
	if err := t.enter(family); err != nil {
		return nil, err
	}
	defer t.leave(family)
	if keys == nil {
		keys = &Range{}
	}
	handle := C.go_transaction_iterator(t.handle, family.c(), t.db.how(options),
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit))
	it := &Iterator{db: t.db, handle: handle, single: true}
	t.db.adopt(it)
	return it, nil
}
