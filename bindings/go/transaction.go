package terrace

// #include "shim_transactions.h"
import "C"

import (
	"errors"
	"time"
)

// Isolation tells which anomalies a transaction prevents.
type Isolation int

const (
	// Serializable: the commit fails if another write has changed a key or a range that the
	// transaction has read or written. The result is that of some serial order.
	Serializable Isolation = iota
	// SnapshotIsolation: only written keys, and those of [Transaction.GetForUpdate], are checked.
	// Two transactions may each read what the other one writes (write skew).
	SnapshotIsolation
)

// Locking tells how a transaction handles others that write the same keys.
type Locking int

const (
	// Optimistic: nothing waits, and conflicts are found at the commit.
	Optimistic Locking = iota
	// Pessimistic: writes and [Transaction.GetForUpdate] lock their keys until the end of the
	// transaction, and wait for other pessimistic transactions.
	Pessimistic
)

// TransactionOptions for one transaction. Nil means the default options.
type TransactionOptions struct {
	Isolation Isolation
	Locking   Locking
	// LockTimeout is the longest wait for a lock; zero means one second.
	LockTimeout time.Duration
	// Sync makes the commit survive a power cut before it returns.
	Sync bool
}

// The number of times that Transact runs its function at most.
const attemptsMax = 100

// Begin begins a transaction. End it with [Transaction.Commit] or [Transaction.Rollback].
func (db *DB) Begin(options *TransactionOptions) (*Transaction, error) {
	if options == nil {
		options = &TransactionOptions{}
	}
	timeout := options.LockTimeout
	if timeout < 0 {
		return nil, invalid("the lock timeout %v is negative", timeout)
	}
	if timeout == 0 {
		timeout = time.Second
	}
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	milliseconds := (timeout + time.Millisecond - 1) / time.Millisecond
	t := &Transaction{db: db, how: db.plain}
	t.handle = C.go_begin(db.handle, C.int(options.Isolation), C.int(options.Locking), C.uint64_t(milliseconds))
	if options.Sync {
		t.how = db.synced
	}
	t.gate.open.Store(true)
	db.adopt(t)
	return t, nil
}

// Transact calls body with a transaction and commits it. If that fails with [ErrRetryable], it begins
// again, at most 100 times. If body returns an error, nothing is written, and Transact returns the
// error. The function must have no effect outside of the transaction.
func (db *DB) Transact(options *TransactionOptions, body func(*Transaction) error) error {
	for attempt := 1; ; attempt++ {
		err := db.attempt(options, body)
		if !errors.Is(err, ErrRetryable) || attempt == attemptsMax {
			return err
		}
	}
}

func (db *DB) attempt(options *TransactionOptions, body func(*Transaction) error) error {
	t, err := db.Begin(options)
	if err != nil {
		return err
	}
	defer t.Rollback()
	if err := body(t); err != nil {
		return err
	}
	return t.Commit()
}

// Transaction reads one moment of the store, that of its first call, and its own writes, which
// nobody else sees before the commit. After its end, and after the store was closed, its methods fail
// with [ErrClosed].
//
// The methods that end in CF work in a column family; a nil family is the default one. Several
// goroutines may use a transaction at the same time. [DB.Close] waits for calls that wait for locks.
type Transaction struct {
	db     *DB
	handle *C.terrace_transaction_t
	how    *C.leveldb_writeoptions_t // of the commit
	gate   gate
}

// enter admits a call to the store, to a family of it and to the transaction. The call must leave.
func (t *Transaction) enter(family *ColumnFamily) error {
	if t.db == nil {
		return ErrClosed // a zero Transaction
	}
	if err := t.db.gate.enter(); err != nil {
		return err
	}
	if err := family.enterIn(t.db); err != nil {
		t.db.gate.leave()
		return err
	}
	if t.gate.enter() != nil {
		family.leaveFamily()
		t.db.gate.leave()
		return ended()
	}
	return nil
}

func (t *Transaction) leave(family *ColumnFamily) {
	t.gate.leave()
	family.leaveFamily()
	t.db.gate.leave()
}

func ended() error { return &Error{ErrClosed, "the transaction was committed or rolled back"} }

// Commit makes the writes of the transaction visible together, and releases its locks. It fails with
// [ErrConflict] if another write has changed what the transaction depends on; nothing is written
// then. The transaction has ended in both cases.
func (t *Transaction) Commit() error {
	if t.db == nil {
		return ErrClosed
	}
	if err := t.db.gate.enter(); err != nil {
		return err
	}
	defer t.db.gate.leave()
	if !t.gate.shut() || !t.db.release(t) {
		return ended()
	}
	return failure(C.go_commit(t.handle, t.how))
}

// Rollback discards the writes of the transaction and releases its locks. After the end of the
// transaction it does nothing.
func (t *Transaction) Rollback() {
	if t.db == nil || t.db.gate.enter() != nil {
		return // closing the store has rolled it back
	}
	defer t.db.gate.leave()
	if t.gate.shut() && t.db.release(t) {
		t.destroy()
	}
}

func (t *Transaction) destroy() { C.terrace_transaction_destroy(t.handle) }

// SetSavepoint remembers the present state of the writes.
func (t *Transaction) SetSavepoint() error {
	if err := t.enter(nil); err != nil {
		return err
	}
	defer t.leave(nil)
	return failure(C.go_set_savepoint(t.handle))
}

// RollbackToSavepoint discards all writes since the newest savepoint, and the savepoint. Locks are
// kept. It fails with [ErrInvalid] if there is no savepoint.
func (t *Transaction) RollbackToSavepoint() error {
	if err := t.enter(nil); err != nil {
		return err
	}
	defer t.leave(nil)
	return failure(C.go_rollback_to_savepoint(t.handle))
}
