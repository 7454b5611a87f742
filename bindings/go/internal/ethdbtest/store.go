// Package ethdbtest runs go-ethereum's tests of key-value stores against Terrace.
//
// Source of the interfaces and of the tests: github.com/ethereum/go-ethereum, packages ethdb and
// ethdb/dbtest.
package ethdbtest

import (
	"errors"

	"github.com/ethereum/go-ethereum/ethdb"
	terrace "github.com/terrace-db/terrace/bindings/go"
)

// A store implements ethdb.KeyValueStore.
type store struct{ db *terrace.DB }

// newStore opens a store in memory whose batches may delete ranges.
func newStore() (ethdb.KeyValueStore, error) {
	db, err := terrace.OpenInMemory(&terrace.Options{Set: map[string]string{"range_tombstones": "on"}})
	return store{db}, err
}

func (s store) Has(key []byte) (bool, error)   { return s.db.Has(key, nil) }
func (s store) Get(key []byte) ([]byte, error) { return s.db.Get(key, nil) }
func (s store) Put(key, value []byte) error    { return s.db.Put(key, value, nil) }
func (s store) Delete(key []byte) error        { return s.db.Delete(key, nil) }
func (s store) Stat() (string, error)          { return s.db.Property("leveldb.stats") }
func (s store) Close() error                   { return s.db.Close() }

func (s store) SyncKeyValue() error {
	sequence, err := s.db.LastSequence()
	return errors.Join(err, s.db.WaitDurable(sequence))
}

// DeleteRange deletes all keys from start, as they are now, if end is nil.
func (s store) DeleteRange(start, end []byte) error {
	return s.db.DeleteRange(terrace.Range{Start: start, Limit: end}, nil)
}

func (s store) Compact(start, limit []byte) error {
	return s.db.CompactRange(terrace.Range{Start: start, Limit: limit})
}

func (s store) NewBatch() ethdb.Batch            { return &batch{db: s.db} }
func (s store) NewBatchWithSize(int) ethdb.Batch { return &batch{db: s.db} }

// NewIterator returns an iterator over the keys that begin with prefix, from prefix followed by
// start on.
func (s store) NewIterator(prefix, start []byte) ethdb.Iterator {
	keys := terrace.Prefix(prefix)
	keys.Start = append(keys.Start, start...)
	it, err := s.db.NewIterator(keys, nil)
	if err != nil {
		return failed{err}
	}
	return iterator{it}
}

// An iterator calls Close Release.
type iterator struct{ *terrace.Iterator }

func (it iterator) Release() { it.Close() }

// A failed iterator has an error and no pairs.
type failed struct{ err error }

func (f failed) Next() bool    { return false }
func (f failed) Error() error  { return f.err }
func (f failed) Key() []byte   { return nil }
func (f failed) Value() []byte { return nil }
func (f failed) Release()      {}

// A batch knows its store, and the bytes of its keys and values.
type batch struct {
	db    *terrace.DB
	ops   terrace.Batch
	bytes int
}

func (b *batch) Put(key, value []byte) error {
	b.ops.Put(key, value)
	b.bytes += len(key) + len(value)
	return nil
}

func (b *batch) Delete(key []byte) error {
	b.ops.Delete(key)
	b.bytes += len(key)
	return nil
}

// DeleteRange deletes up to the largest key that the interface knows if end is nil.
func (b *batch) DeleteRange(start, end []byte) error {
	if end == nil {
		end = ethdb.MaximumKey
	}
	b.ops.DeleteRange(terrace.Range{Start: start, Limit: end})
	b.bytes += len(start) + len(end)
	return nil
}

func (b *batch) ValueSize() int { return b.bytes }
func (b *batch) Write() error   { return b.db.Write(&b.ops, nil) }
func (b *batch) Close()         {}

func (b *batch) Reset() {
	b.ops.Clear()
	b.bytes = 0
}

// Replay applies the operations to w, in order.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for op := range b.ops.Ops() {
		if err := replay(w, op); err != nil {
			return err
		}
	}
	return nil
}

func replay(w ethdb.KeyValueWriter, op terrace.Op) error {
	switch op.Kind {
	case terrace.OpPut:
		return w.Put(op.Key, op.Value)
	case terrace.OpDelete:
		return w.Delete(op.Key)
	}
	ranges, ok := w.(ethdb.KeyValueRangeDeleter)
	if !ok {
		return errors.New("the target of the replay cannot delete ranges")
	}
	return ranges.DeleteRange(op.Key, op.Value)
}
