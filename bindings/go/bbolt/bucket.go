package bbolt

import (
	"go.etcd.io/bbolt/errors"
)

// Limits of keys and values in bytes.
const (
	MaxKeySize   = 32768
	MaxValueSize = (1 << 31) - 2
)

// DefaultFillPercent is the default of Bucket.FillPercent, which has no effect.
const DefaultFillPercent = 0.5

// Bucket is a collection of pairs and of nested buckets in a transaction.
type Bucket struct {
	FillPercent float64 // has no effect: there are no pages

	tx     *Tx
	id     uint64
	parent *Bucket // nil for the root; see within
	name   []byte
}

// Tx returns the transaction of the bucket.
func (b *Bucket) Tx() *Tx { return b.tx }

// Root returns the id of the bucket.
func (b *Bucket) Root() uint64 { return b.id }

// Writable returns whether the bucket can be changed.
func (b *Bucket) Writable() bool { return b.tx.writable }

// Cursor returns a cursor over the keys of the bucket. It has no place before its first move.
func (b *Bucket) Cursor() *Cursor {
	b.tx.stats.IncCursorCount(1)
	return &Cursor{bucket: b, scan: newScan(b.tx, b.id)}
}

// usable returns an error if the transaction has ended.
func (b *Bucket) usable() error {
	if b.tx.db == nil {
		return errors.ErrTxClosed
	}
	return nil
}

// writable returns an error if the bucket cannot be changed.
func (b *Bucket) writable() error {
	switch {
	case b.tx.db == nil:
		return errors.ErrTxClosed
	case !b.tx.writable:
		return errors.ErrTxNotWritable
	case b.tx.deleted[b.id]:
		return errors.ErrBucketNotFound
	}
	return nil
}

// Get returns the value of a key, or nil if the key does not exist or is a nested bucket. It must
// not be changed, and is valid until the transaction ends.
func (b *Bucket) Get(key []byte) []byte {
	if e, ok := b.tx.find(entryKey(b.id, key)); ok && !e.isBucket {
		return e.value
	}
	return nil
}

// Put sets a key to a copy of a value.
func (b *Bucket) Put(key, value []byte) error {
	if err := b.writable(); err != nil {
		return err
	}
	switch {
	case len(key) == 0:
		return errors.ErrKeyRequired
	case len(key) > MaxKeySize:
		return errors.ErrKeyTooLarge
	case len(value) > MaxValueSize:
		return errors.ErrValueTooLarge
	}
	full := entryKey(b.id, key)
	old, exists := b.tx.find(full)
	if exists && old.isBucket {
		return errors.ErrIncompatibleValue
	}
	b.tx.put(full, old, exists, entry{value: value})
	return nil
}

// Delete deletes a key, which need not exist.
func (b *Bucket) Delete(key []byte) error {
	if err := b.writable(); err != nil {
		return err
	}
	full := entryKey(b.id, key)
	old, exists := b.tx.find(full)
	if exists && old.isBucket {
		return errors.ErrIncompatibleValue
	}
	if exists {
		b.tx.delete(full, old)
	}
	return nil
}

// ForEach calls fn for each key in order, with a nil value for a nested bucket, until fn fails.
func (b *Bucket) ForEach(fn func(key, value []byte) error) error {
	if err := b.usable(); err != nil {
		return err
	}
	c := b.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		if err := fn(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Sequence returns the number that NextSequence returned last.
func (b *Bucket) Sequence() uint64 {
	e, _ := b.entry()
	return e.sequence
}

// SetSequence sets the number that NextSequence has returned.
func (b *Bucket) SetSequence(sequence uint64) error {
	if err := b.writable(); err != nil {
		return err
	}
	e, ok := b.entry()
	if !ok {
		return errors.ErrBucketNotFound
	}
	changed := e
	changed.sequence = sequence
	b.tx.put(entryKey(b.within().id, b.name), e, true, changed)
	return nil
}

// NextSequence returns a number that is greater by one for each call.
func (b *Bucket) NextSequence() (uint64, error) {
	if err := b.writable(); err != nil {
		return 0, err
	}
	next := b.Sequence() + 1
	return next, b.SetSequence(next)
}

// within returns the bucket that contains the bucket now; nil for the root.
func (b *Bucket) within() *Bucket {
	if moved := b.tx.moved[b.id]; moved != nil {
		return moved
	}
	return b.parent
}

// entry returns the entry of the bucket in its parent. The root and a deleted bucket have none.
func (b *Bucket) entry() (entry, bool) {
	if b.parent == nil {
		return entry{}, false
	}
	e, ok := b.tx.find(entryKey(b.within().id, b.name))
	if !ok || !e.isBucket || e.child != b.id {
		return entry{}, false
	}
	return e, true
}
