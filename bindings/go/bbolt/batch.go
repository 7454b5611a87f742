package bbolt

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// A batch is a group of functions that one transaction calls.
type batch struct {
	db    *DB
	timer *time.Timer
	start sync.Once
	calls []call
}

type call struct {
	fn     func(*Tx) error
	result chan<- error
}

// errAlone tells a caller to call its function in a transaction of its own.
var errAlone = errors.New("batch function returned an error and should be re-run alone")

// Batch calls fn as part of one transaction for several callers, which costs one sync for all of
// them. It is useful only from several goroutines. fn may be called several times, so its effects
// outside of the transaction must be the same then.
func (db *DB) Batch(fn func(*Tx) error) error {
	result := make(chan error, 1)
	db.batchMu.Lock()
	if db.batch == nil || len(db.batch.calls) >= db.MaxBatchSize {
		db.batch = &batch{db: db}
		db.batch.timer = time.AfterFunc(db.MaxBatchDelay, db.batch.trigger)
	}
	db.batch.calls = append(db.batch.calls, call{fn, result})
	if len(db.batch.calls) >= db.MaxBatchSize {
		go db.batch.trigger()
	}
	db.batchMu.Unlock()
	err := <-result
	if err == errAlone {
		return db.Update(fn)
	}
	return err
}

// trigger runs the batch once.
func (b *batch) trigger() { b.start.Do(b.run) }

// run calls the functions until all that remain succeed in one transaction. A function that fails
// is taken out, and its caller runs it alone.
func (b *batch) run() {
	b.db.batchMu.Lock()
	b.timer.Stop()
	if b.db.batch == b {
		b.db.batch = nil // no more functions join
	}
	b.db.batchMu.Unlock()
	for len(b.calls) > 0 {
		failed := -1
		err := b.db.Update(func(tx *Tx) error {
			for at, call := range b.calls {
				if err := guarded(call.fn, tx); err != nil {
					failed = at
					return err
				}
			}
			return nil
		})
		if failed < 0 {
			for _, call := range b.calls {
				call.result <- err
			}
			return
		}
		alone := b.calls[failed]
		b.calls = append(b.calls[:failed], b.calls[failed+1:]...)
		alone.result <- errAlone
	}
}

// guarded turns a panic of fn into an error. The function panics again when it runs alone, in the
// goroutine of its caller.
func guarded(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return fn(tx)
}
