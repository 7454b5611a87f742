package bbolt

import "go.etcd.io/bbolt/errors"

// Cursor moves over the keys of a bucket in order. A value is nil for a nested bucket. Keys and
// values must not be changed, and are valid until the transaction ends. The functions panic if the
// transaction has ended or the store cannot be read.
//
// A cursor has a place even if its key is deleted: Next and Prev move from there.
type Cursor struct {
	bucket *Bucket
	scan   *scan
	key    []byte // the store's key of the place; nil before the first move
}

// Bucket returns the bucket of the cursor.
func (c *Cursor) Bucket() *Bucket { return c.bucket }

// First moves to the first key. It returns nil for an empty bucket.
func (c *Cursor) First() (key, value []byte) {
	return c.moved(c.finder().next(entryKey(c.bucket.id, nil), true))
}

// Last moves to the last key. It returns nil for an empty bucket.
func (c *Cursor) Last() (key, value []byte) {
	return c.moved(c.finder().prev(entryKey(c.bucket.id+1, nil)))
}

// Seek moves to the first key at or after seek. It returns nil if there is none.
func (c *Cursor) Seek(seek []byte) (key, value []byte) {
	c.key = entryKey(c.bucket.id, seek)
	return c.moved(c.finder().next(c.key, true))
}

// Next moves to the next key. At the end it returns nil and does not move.
func (c *Cursor) Next() (key, value []byte) {
	finder := c.finder()
	if c.key == nil {
		return nil, nil
	}
	return c.moved(finder.next(c.key, false))
}

// Prev moves to the previous key. At the beginning it returns nil and does not move.
func (c *Cursor) Prev() (key, value []byte) {
	finder := c.finder()
	if c.key == nil {
		return nil, nil
	}
	return c.moved(finder.prev(c.key))
}

// Delete deletes the key of the cursor. It fails with ErrIncompatibleValue for a nested bucket.
func (c *Cursor) Delete() error {
	if err := c.bucket.writable(); err != nil || c.key == nil {
		return err
	}
	return c.bucket.Delete(c.key[entryHead:])
}

func (c *Cursor) finder() *scan {
	if c.bucket.tx.db == nil {
		panic(errors.ErrTxClosed)
	}
	return c.scan
}

// moved makes a found entry the place of the cursor, and returns it for the user.
func (c *Cursor) moved(full, encoded []byte) (key, value []byte) {
	if full == nil {
		return nil, nil
	}
	c.key = full
	e := c.bucket.tx.decode(full, encoded)
	if e.isBucket {
		return full[entryHead:], nil
	}
	return full[entryHead:], e.value
}
