package bbolt

import (
	"bytes"

	"go.etcd.io/bbolt/errors"
)

// Bucket returns a nested bucket, or nil if it does not exist.
func (b *Bucket) Bucket(name []byte) *Bucket {
	if b.tx.db == nil {
		return nil
	}
	if e, ok := b.tx.find(entryKey(b.id, name)); ok && e.isBucket {
		return b.nested(name, e.child)
	}
	return nil
}

func (b *Bucket) nested(name []byte, id uint64) *Bucket {
	return &Bucket{FillPercent: DefaultFillPercent, tx: b.tx, id: id, parent: b, name: bytes.Clone(name)}
}

// CreateBucket makes a nested bucket. It fails with ErrBucketExists or, if there is a value of this
// name, with ErrIncompatibleValue.
func (b *Bucket) CreateBucket(name []byte) (*Bucket, error) {
	if err := b.writable(); err != nil {
		return nil, err
	}
	switch {
	case len(name) == 0:
		return nil, errors.ErrBucketNameRequired
	case len(name) > MaxKeySize:
		return nil, errors.ErrKeyTooLarge
	}
	if err := b.free(name); err != nil {
		return nil, err
	}
	id := b.tx.meta.nextBucket
	b.tx.meta.nextBucket++
	b.tx.put(entryKey(b.id, name), entry{}, false, entry{isBucket: true, child: id})
	return b.nested(name, id), nil
}

// free returns an error if there is a bucket or a value of this name.
func (b *Bucket) free(name []byte) error {
	switch e, exists := b.tx.find(entryKey(b.id, name)); {
	case exists && e.isBucket:
		return errors.ErrBucketExists
	case exists:
		return errors.ErrIncompatibleValue
	}
	return nil
}

// CreateBucketIfNotExists returns a nested bucket, and makes it if it does not exist.
func (b *Bucket) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	made, err := b.CreateBucket(name)
	if err == errors.ErrBucketExists {
		return b.Bucket(name), nil
	}
	return made, err
}

// child returns the entry of a nested bucket.
func (b *Bucket) child(name []byte) (entry, error) {
	switch e, exists := b.tx.find(entryKey(b.id, name)); {
	case !exists:
		return e, errors.ErrBucketNotFound
	case !e.isBucket:
		return e, errors.ErrIncompatibleValue
	default:
		return e, nil
	}
}

// DeleteBucket deletes a nested bucket and everything in it.
func (b *Bucket) DeleteBucket(name []byte) error {
	if err := b.writable(); err != nil {
		return err
	}
	e, err := b.child(name)
	if err != nil {
		return err
	}
	b.nested(name, e.child).empty()
	b.tx.deleted[e.child] = true
	b.tx.delete(entryKey(b.id, name), e)
	return nil
}

// empty deletes all entries of the bucket, and those of its nested buckets.
func (b *Bucket) empty() {
	finder := newScan(b.tx, b.id)
	full, encoded := finder.next(entryKey(b.id, nil), true)
	for full != nil {
		e := b.tx.decode(full, encoded)
		if e.isBucket {
			b.nested(full[entryHead:], e.child).empty()
			b.tx.deleted[e.child] = true
		}
		b.tx.delete(full, e)
		full, encoded = finder.next(full, false)
	}
}

// MoveBucket moves a nested bucket into another bucket of the same database. Its contents stay
// where they are: the cost does not depend on them.
func (b *Bucket) MoveBucket(name []byte, to *Bucket) error {
	for _, bucket := range []*Bucket{b, to} {
		if err := bucket.writable(); err != nil {
			return err
		}
	}
	switch {
	case b.tx.db.path != to.tx.db.path || b.tx != to.tx:
		return errors.ErrDifferentDB
	case b.id == to.id:
		return errors.ErrSameBuckets
	}
	e, err := b.child(name)
	if err != nil {
		return err
	}
	for within := to; within != nil; within = within.within() {
		if within.id == e.child {
			return errors.ErrSameBuckets // a bucket cannot contain itself
		}
	}
	if err := to.free(name); err != nil {
		return err
	}
	b.tx.delete(entryKey(b.id, name), e)
	b.tx.put(entryKey(to.id, name), entry{}, false, e)
	b.tx.moved[e.child] = to
	return nil
}

// ForEachBucket calls fn for the name of each nested bucket in order, until fn fails.
func (b *Bucket) ForEachBucket(fn func(name []byte) error) error {
	return b.ForEach(func(name, value []byte) error {
		if value != nil {
			return nil
		}
		return fn(name)
	})
}

// BucketStructure describes the nesting of buckets.
type BucketStructure struct {
	Name     string            `json:"name"`
	KeyN     int               `json:"keyN"` // pairs
	Children []BucketStructure `json:"buckets,omitempty"`
}

// Inspect describes the bucket and the buckets in it.
func (b *Bucket) Inspect() BucketStructure {
	found := BucketStructure{Name: string(b.name)}
	if b.parent == nil {
		found.Name = "root"
	}
	c := b.Cursor()
	for name, value := c.First(); name != nil; name, value = c.Next() {
		if value != nil {
			found.KeyN++
		} else {
			found.Children = append(found.Children, b.Bucket(name).Inspect())
		}
	}
	return found
}
