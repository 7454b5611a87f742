package bbolt

import (
	stderrors "errors"
	"fmt"
	"time"

	terrace "github.com/terrace-db/terrace/bindings/go"
	"go.etcd.io/bbolt/errors"
)

// Tx is a transaction. A read-only one sees the database as it was when it began. A writable one
// also sees its own writes, and there is only one at a time. Only one goroutine at a time may use a
// writable transaction, or a cursor; several may use a read-only transaction, until it ends. End
// each transaction: the store keeps what it sees.
type Tx struct {
	// WriteFlag has no effect: WriteTo reads the snapshot of the transaction.
	WriteFlag int

	db       *DB // nil after the end
	writable bool
	managed  bool // ended by Update or View only
	snapshot *terrace.Snapshot
	overlay  *overlay // nil in a read-only transaction
	meta     meta
	// The size when the transaction began.
	sizeBefore uint64
	root       *Bucket
	deleted    map[uint64]bool    // ids of deleted buckets
	moved      map[uint64]*Bucket // the parents of moved buckets, by id
	scans      scans
	handlers   []func()
	stats      TxStats
}

// newTx returns a transaction on the present state of the store. The caller holds the locks.
func newTx(db *DB, writable bool) (*Tx, error) {
	snapshot, err := db.store.Snapshot()
	if err != nil {
		return nil, err
	}
	tx := &Tx{db: db, writable: writable, snapshot: snapshot}
	tx.root = &Bucket{FillPercent: DefaultFillPercent, tx: tx, id: rootID}
	if tx.meta, err = readMeta(snapshot); err != nil {
		snapshot.Release()
		return nil, err
	}
	tx.sizeBefore = tx.meta.size
	if writable {
		tx.overlay = newOverlay()
		tx.deleted, tx.moved = map[uint64]bool{}, map[uint64]*Bucket{}
		tx.meta.txid++
	}
	return tx, nil
}

// readMeta returns the meta of a database. It fails with ErrInvalid if the store is not one.
func readMeta(from interface {
	Get([]byte, *terrace.ReadOptions) ([]byte, error)
}) (meta, error) {
	encoded, err := from.Get(metaKey, nil)
	if err != nil {
		return meta{}, err
	}
	found, ok := decodeMeta(encoded)
	if !ok {
		return meta{}, errors.ErrInvalid
	}
	return found, nil
}

// ID returns the number of the transaction: of the last commit that it sees, or of its own.
func (tx *Tx) ID() int { return int(tx.meta.txid) }

// DB returns the database; nil after the end of the transaction.
func (tx *Tx) DB() *DB { return tx.db }

// Size returns the number of bytes that WriteTo writes.
func (tx *Tx) Size() int64 { return int64(tx.meta.size) }

// Writable returns whether the transaction can write.
func (tx *Tx) Writable() bool { return tx.writable }

// Stats returns a copy of the statistics of the transaction.
func (tx *Tx) Stats() TxStats { return tx.stats }

// Cursor returns a cursor over the names of the top buckets.
func (tx *Tx) Cursor() *Cursor { return tx.root.Cursor() }

// Bucket returns a top bucket, or nil if it does not exist.
func (tx *Tx) Bucket(name []byte) *Bucket { return tx.root.Bucket(name) }

// CreateBucket makes a top bucket; see [Bucket.CreateBucket].
func (tx *Tx) CreateBucket(name []byte) (*Bucket, error) { return tx.root.CreateBucket(name) }

// CreateBucketIfNotExists returns a top bucket, and makes it if it does not exist.
func (tx *Tx) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	return tx.root.CreateBucketIfNotExists(name)
}

// DeleteBucket deletes a top bucket and everything in it.
func (tx *Tx) DeleteBucket(name []byte) error { return tx.root.DeleteBucket(name) }

// MoveBucket moves a bucket from one bucket into another; nil is the top.
func (tx *Tx) MoveBucket(name []byte, from, to *Bucket) error {
	if from == nil {
		from = tx.root
	}
	if to == nil {
		to = tx.root
	}
	return from.MoveBucket(name, to)
}

// ForEach calls fn for each top bucket, until fn fails.
func (tx *Tx) ForEach(fn func(name []byte, b *Bucket) error) error {
	return tx.root.ForEach(func(name, _ []byte) error { return fn(name, tx.root.Bucket(name)) })
}

// Inspect describes the buckets of the database.
func (tx *Tx) Inspect() BucketStructure { return tx.root.Inspect() }

// OnCommit adds a function that is called after a successful commit.
func (tx *Tx) OnCommit(fn func()) { tx.handlers = append(tx.handlers, fn) }

// Commit writes all changes, which then survive a power cut unless DB.NoSync is set, and ends the
// transaction. After a failure none of the changes exists.
func (tx *Tx) Commit() error {
	if tx.managed {
		panic("managed tx commit not allowed")
	}
	switch {
	case tx.db == nil:
		return errors.ErrTxClosed
	case !tx.writable:
		return errors.ErrTxNotWritable
	}
	begin, db := time.Now(), tx.db
	err := tx.write()
	tx.stats.IncWrite(1)
	tx.stats.IncWriteTime(time.Since(begin))
	tx.end()
	if err != nil {
		return err
	}
	if db.StrictMode {
		db.mustCheck()
	}
	for _, handler := range tx.handlers {
		handler()
	}
	return nil
}

// write applies the overlay in one batch.
func (tx *Tx) write() error {
	if limit := uint64(max(tx.db.MaxSize, 0)); limit > 0 && tx.meta.size > max(limit, tx.sizeBefore) {
		return errors.ErrMaxSizeReached
	}
	var batch terrace.Batch
	batch.Put(metaKey, tx.meta.encode())
	tx.overlay.all(func(c *change) error {
		if c.deleted {
			batch.Delete(c.key)
		} else {
			batch.Put(c.key, c.value)
		}
		return nil
	})
	return tx.db.noteSpace(tx.db.store.Write(&batch, &terrace.WriteOptions{Sync: !tx.db.NoSync}))
}

// Rollback ends the transaction without its changes.
func (tx *Tx) Rollback() error {
	if tx.managed {
		panic("managed tx rollback not allowed")
	}
	if tx.db == nil {
		return errors.ErrTxClosed
	}
	tx.end()
	return nil
}

// end releases everything that the transaction holds.
func (tx *Tx) end() {
	db := tx.db
	tx.scans.close()
	tx.snapshot.Release()
	tx.db, tx.overlay = nil, nil
	db.ended(tx)
}

// find returns an entry. In an ended transaction it finds none.
func (tx *Tx) find(full []byte) (entry, bool) {
	if tx.db == nil {
		return entry{}, false
	}
	if tx.overlay != nil {
		if c := tx.overlay.get(full); c != nil {
			if c.deleted {
				return entry{}, false
			}
			return tx.decode(full, c.value), true
		}
	}
	encoded, err := tx.snapshot.Get(full, nil)
	switch {
	case err == nil:
		return tx.decode(full, encoded), true
	case stderrors.Is(err, terrace.ErrNotFound):
		return entry{}, false
	}
	tx.unreadable(err)
	panic("not reached")
}

// put replaces an entry, and counts its bytes.
func (tx *Tx) put(full []byte, old entry, exists bool, e entry) {
	encoded := e.encode()
	if exists {
		tx.meta.size -= recordBytes(full, old)
	}
	tx.meta.size += recordBytes(full, e)
	tx.overlay.set(full, encoded, false)
}

// delete deletes an entry that exists.
func (tx *Tx) delete(full []byte, old entry) {
	tx.meta.size -= recordBytes(full, old)
	tx.overlay.set(full, nil, true)
}

func (tx *Tx) decode(full, encoded []byte) entry {
	e, ok := decodeEntry(encoded)
	if !ok {
		tx.unreadable(fmt.Errorf("the entry %x has the unknown form %.20x", full, encoded))
	}
	return e
}

// unreadable panics, as bbolt does if a page is damaged: most readers cannot return an error, and a
// damaged key must not look like an absent one.
func (tx *Tx) unreadable(err error) {
	panic(fmt.Errorf("bbolt: read of %s: %w", tx.db.path, err))
}

// PageInfo describes a page of bbolt.
type PageInfo struct {
	ID            int
	Type          string
	Count         int
	OverflowCount int
}

// Page returns nil, as for a page that does not exist: there are no pages.
func (tx *Tx) Page(int) (*PageInfo, error) {
	if tx.db == nil {
		return nil, errors.ErrTxClosed
	}
	return nil, nil
}
