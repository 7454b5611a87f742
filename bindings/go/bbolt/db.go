package bbolt

import (
	stderrors "errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	terrace "github.com/terrace-db/terrace/bindings/go"
	"go.etcd.io/bbolt/errors"
)

// Defaults of DB.
const (
	DefaultMaxBatchSize  = 1000
	DefaultMaxBatchDelay = 10 * time.Millisecond
	DefaultAllocSize     = 16 * 1024 * 1024
)

// IgnoreNoSync is false: NoSync has an effect.
const IgnoreNoSync = false

// DB is an open database. Its methods may be called from several goroutines at the same time. A
// field that is not described has no effect.
type DB struct {
	// StrictMode checks the database after every commit, and panics if it is not consistent.
	StrictMode bool
	// NoSync makes commits survive the end of the process only, until Sync. Do not change it during
	// a commit.
	NoSync          bool
	NoFreelistSync  bool
	FreelistType    FreelistType
	NoGrowSync      bool
	PreLoadFreelist bool
	MmapFlags       int
	// MaxBatchSize is the largest number of functions that one transaction of Batch calls. 0 or
	// less disables batching.
	MaxBatchSize int
	// MaxBatchDelay is the longest time that Batch waits for other functions.
	MaxBatchDelay time.Duration
	AllocSize     int
	// MaxSize limits Tx.Size of a commit that grows the database. 0 is no limit.
	MaxSize int
	Mlock   bool

	path     string
	readOnly bool
	logger   Logger
	store    *terrace.DB // nil before Open and after Close; guarded by users
	full     atomic.Bool // whether a lack of space has stopped writes

	// Lock order: writer, users, mu.
	writer sync.Mutex   // held by the writable transaction
	users  sync.RWMutex // held shared by every transaction, and exclusively by Close

	mu           sync.Mutex
	stats        Stats
	noStatistics bool

	batchMu sync.Mutex
	batch   *batch
}

func newDB(path string, options *Options) *DB {
	logger := options.Logger
	if logger == nil {
		logger = discard{}
	}
	return &DB{
		NoSync:          options.NoSync,
		NoGrowSync:      options.NoGrowSync,
		NoFreelistSync:  options.NoFreelistSync,
		FreelistType:    options.FreelistType,
		PreLoadFreelist: options.PreLoadFreelist,
		MmapFlags:       options.MmapFlags,
		MaxBatchSize:    DefaultMaxBatchSize,
		MaxBatchDelay:   DefaultMaxBatchDelay,
		AllocSize:       DefaultAllocSize,
		MaxSize:         options.MaxSize,

		path:         path,
		readOnly:     options.ReadOnly,
		logger:       logger,
		noStatistics: options.NoStatistics,
	}
}

// prepare checks that the store is a database, and makes an empty store one.
func (db *DB) prepare() error {
	_, err := readMeta(db.store)
	if !stderrors.Is(err, terrace.ErrNotFound) {
		return err
	}
	it, err := db.store.NewIterator(nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	if it.First() || db.readOnly {
		return errors.ErrInvalid
	}
	if err := it.Error(); err != nil {
		return err
	}
	return db.store.Put(metaKey, newMeta().encode(), terrace.Sync)
}

// Close waits until all transactions have ended, and closes the database. Commits with NoSync then
// survive a power cut, too. A second Close does nothing.
func (db *DB) Close() error {
	db.writer.Lock()
	defer db.writer.Unlock()
	db.users.Lock()
	defer db.users.Unlock()
	if db.store == nil {
		return nil
	}
	store := db.store
	db.store = nil
	return store.Close()
}

// Begin starts a transaction. A writable one waits for the end of the one before. It must be ended
// with Commit or Rollback.
func (db *DB) Begin(writable bool) (*Tx, error) {
	if writable {
		if db.readOnly {
			return nil, errors.ErrDatabaseReadOnly
		}
		db.writer.Lock()
	}
	tx, err := db.begin(writable)
	if err != nil && writable {
		db.writer.Unlock()
	}
	return tx, err
}

func (db *DB) begin(writable bool) (*Tx, error) {
	db.users.RLock()
	if db.store == nil {
		db.users.RUnlock()
		return nil, errors.ErrDatabaseNotOpen
	}
	if writable && db.full.Load() && db.store.Resume() == nil {
		db.full.Store(false) // otherwise the commit reports that writes have stopped
	}
	tx, err := newTx(db, writable)
	if err != nil {
		db.users.RUnlock()
		return nil, err
	}
	if !writable {
		db.count(func(s *Stats) { s.TxN++; s.OpenTxN++ })
	}
	return tx, nil
}

// ended counts a transaction that has ended, and releases its locks.
func (db *DB) ended(tx *Tx) {
	db.count(func(s *Stats) {
		if !tx.writable {
			s.OpenTxN--
		}
		s.TxStats.add(&tx.stats)
	})
	db.users.RUnlock()
	if tx.writable {
		db.writer.Unlock()
	}
}

func (db *DB) count(change func(*Stats)) {
	if db.noStatistics {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	change(&db.stats)
}

// Update calls fn with a writable transaction, and commits it. If fn fails or panics, the
// transaction is rolled back.
func (db *DB) Update(fn func(*Tx) error) error {
	return db.run(true, fn, (*Tx).Commit)
}

// View calls fn with a read-only transaction.
func (db *DB) View(fn func(*Tx) error) error {
	return db.run(false, fn, (*Tx).Rollback)
}

// run calls fn with a managed transaction, and ends it by end if fn succeeds.
func (db *DB) run(writable bool, fn func(*Tx) error, end func(*Tx) error) error {
	tx, err := db.Begin(writable)
	if err != nil {
		return err
	}
	defer func() {
		if tx.db != nil { // fn failed or panicked
			tx.end()
		}
	}()
	tx.managed = true
	err = fn(tx)
	tx.managed = false
	if err != nil {
		return err
	}
	return end(tx)
}

// Sync makes all commits so far survive a power cut. It is only needed with NoSync.
func (db *DB) Sync() error {
	db.users.RLock()
	defer db.users.RUnlock()
	if db.store == nil {
		return errors.ErrDatabaseNotOpen
	}
	last, err := db.store.LastSequence()
	if err != nil {
		return err
	}
	return db.noteSpace(db.store.WaitDurable(last))
}

// noteSpace returns the error of a write. If the disk is full, the store stops writes, and the next
// writable transaction resumes them.
func (db *DB) noteSpace(err error) error {
	if stderrors.Is(err, terrace.ErrNoSpace) {
		db.full.Store(true)
	}
	return err
}

// Path returns the path of the database.
func (db *DB) Path() string { return db.path }

// IsReadOnly returns whether the database was opened for reading only.
func (db *DB) IsReadOnly() bool { return db.readOnly }

// Logger returns the logger of the database.
func (db *DB) Logger() Logger {
	if db == nil || db.logger == nil {
		return discard{}
	}
	return db.logger
}

// String returns a text with the path.
func (db *DB) String() string { return fmt.Sprintf("DB<%q>", db.path) }

// GoString returns a text with the path, as Go source.
func (db *DB) GoString() string { return fmt.Sprintf("bolt.DB{path:%q}", db.path) }

// Stats returns the statistics of the transactions so far.
func (db *DB) Stats() Stats {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.stats
}

// Info has the size of a page of memory. There is no mapping, so Data is 0.
type Info struct {
	Data     uintptr
	PageSize int
}

// Info returns the Info of the database.
func (db *DB) Info() *Info { return &Info{PageSize: os.Getpagesize()} }
