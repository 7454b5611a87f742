package bbolt

import "bytes"

// Compact copies all buckets of a database into an empty one, in transactions of about txMaxSize
// bytes; 0 is one transaction. There is rarely a need: Terrace compacts in the background.
func Compact(to, from *DB, txMaxSize int64) error {
	return from.View(func(source *Tx) error {
		target, err := to.Begin(true)
		if err != nil {
			return err
		}
		c := compaction{to: to, tx: target, max: txMaxSize}
		if err := c.bucket(source.root, nil); err != nil {
			if c.tx.db != nil {
				c.tx.Rollback()
			}
			return err
		}
		return c.tx.Commit()
	})
}

// A compaction copies into a transaction, which it replaces from time to time.
type compaction struct {
	to       *DB
	tx       *Tx
	max, now int64
}

// bucket copies the contents of a bucket to the same path of names.
func (c *compaction) bucket(from *Bucket, path [][]byte) error {
	if err := c.target(path).setSequence(from); err != nil {
		return err
	}
	return from.ForEach(func(key, value []byte) error {
		if value != nil {
			return c.pair(path, key, value)
		}
		if _, err := c.target(path).CreateBucket(key); err != nil {
			return err
		}
		nested := append(append([][]byte{}, path...), bytes.Clone(key))
		return c.bucket(from.Bucket(key), nested)
	})
}

func (c *compaction) pair(path [][]byte, key, value []byte) error {
	size := int64(len(key) + len(value))
	if c.max > 0 && c.now+size > c.max {
		if err := c.tx.Commit(); err != nil {
			return err
		}
		next, err := c.to.Begin(true)
		if err != nil {
			return err // c.tx has ended
		}
		c.tx, c.now = next, 0
	}
	c.now += size
	return c.target(path).Put(key, value)
}

// target returns the bucket at a path of names in the present transaction.
func (c *compaction) target(path [][]byte) *Bucket {
	b := c.tx.root
	for _, name := range path {
		b = b.Bucket(name)
	}
	return b
}

// setSequence copies the sequence of a bucket that is not the root.
func (b *Bucket) setSequence(from *Bucket) error {
	if b.parent == nil {
		return nil
	}
	return b.SetSequence(from.Sequence())
}
