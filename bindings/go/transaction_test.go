package terrace

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"
)

func begin(t testing.TB, db *DB, options *TransactionOptions) *Transaction {
	t.Helper()
	return got[*Transaction](t)(db.Begin(options))
}

func TestATransactionReadsItsWritesAndCommits(t *testing.T) {
	db := inMemory(t, nil)
	users := family(t, db, "users")
	tx := begin(t, db, &TransactionOptions{Sync: true})
	must(t, tx.Put([]byte("a"), []byte("1")))
	must(t, tx.PutCF(users, []byte("a"), []byte("ann")))
	equal(t, string(got[[]byte](t)(tx.Get([]byte("a")))), "1")
	equal(t, string(got[[]byte](t)(tx.GetCF(users, []byte("a")))), "ann")
	_, err := tx.GetForUpdateCF(users, []byte("b"))
	wants(t, err, ErrNotFound)
	_, err = db.Get([]byte("a"), nil)
	wants(t, err, ErrNotFound)
	must(t, tx.SetSavepoint())
	must(t, tx.Delete([]byte("a")))
	must(t, tx.DeleteCF(users, []byte("a")))
	must(t, tx.RollbackToSavepoint())
	wants(t, tx.RollbackToSavepoint(), ErrInvalid)
	must(t, tx.Commit())
	equal(t, all(t, users), []string{"a=ann"})
	for _, err := range transactionErrors(tx) {
		wants(t, err, ErrClosed)
	}
	tx = begin(t, db, nil)
	must(t, tx.DeleteRange(Range{Limit: []byte("b")}))
	must(t, tx.DeleteRangeCF(users, Range{Limit: []byte("b")}))
	wants(t, tx.DeleteRange(Range{}), ErrInvalid)
	_, err = tx.GetForUpdate([]byte("a"))
	wants(t, err, ErrNotFound)
	tx.Rollback()
	tx.Rollback()
	equal(t, string(got[[]byte](t)(db.Get([]byte("a"), nil))), "1")
}

func transactionErrors(tx *Transaction) []error {
	second := func(_ any, err error) error { return err }
	return []error{
		second(tx.Get(nil)), second(tx.GetForUpdate(nil)), tx.Put(nil, nil), tx.Delete(nil),
		tx.DeleteRange(Range{Limit: []byte("z")}), second(tx.NewIterator(nil, nil)),
		tx.SetSavepoint(), tx.RollbackToSavepoint(), tx.Commit(),
	}
}

func TestIteratorsOfATransaction(t *testing.T) {
	db := inMemory(t, nil)
	users := family(t, db, "users")
	for _, key := range []string{"b", "d", "f", "h"} {
		must(t, users.Put([]byte(key), make([]byte, 2*firstChunk), nil))
	}
	tx := begin(t, db, nil)
	must(t, tx.PutCF(users, []byte("c"), nil))
	must(t, tx.DeleteCF(users, []byte("d")))
	it := got[*Iterator](t)(tx.NewIteratorCF(users, &Range{Start: []byte("b"), Limit: []byte("h")}, nil))
	var walk string
	for range it.All() {
		walk += string(it.Key())
	}
	for range it.Backward() {
		walk += string(it.Key())
	}
	for _, move := range []func() bool{it.First, it.Next, it.Prev, it.Next, it.Next, it.Next, it.Prev} {
		if move() {
			walk += string(it.Key())
		}
	}
	if it.Seek([]byte("a")) {
		walk += string(it.Key())
	}
	must(t, it.Error())
	equal(t, walk, "bcf"+"fcb"+"bcbcff"+"b")
	if len(it.Value()) != 2*firstChunk {
		t.Fatalf("a value has %d bytes", len(it.Value()))
	}
	must(t, tx.Commit())
	if it.Next() {
		t.Fatal("an iterator moved after the end of its transaction")
	}
	wants(t, it.Error(), ErrInvalid)
	it.Close()
}

// A write conflicts with what an iterator has reached, and with nothing after that.
func TestIteratorsReadNothingInAdvance(t *testing.T) {
	db := inMemory(t, nil)
	fill(t, db, 10)
	for changed, kind := range map[string]error{"key000001": ErrConflict, "key000002": nil} {
		tx := begin(t, db, nil)
		it := got[*Iterator](t)(tx.NewIterator(nil, nil))
		if !it.Next() || !it.Next() {
			t.Fatal(it.Error())
		}
		must(t, tx.Put([]byte("x"), nil))
		must(t, db.Put([]byte(changed), nil, nil))
		if err := tx.Commit(); !errors.Is(err, kind) {
			t.Fatalf("a write of %s: %v", changed, err)
		}
		it.Close()
	}
}

func TestConflictsAreRetryable(t *testing.T) {
	db := inMemory(t, nil)
	for isolation, kind := range map[Isolation]error{Serializable: ErrConflict, SnapshotIsolation: nil} {
		tx := begin(t, db, &TransactionOptions{Isolation: isolation})
		_, _ = tx.Get([]byte("read"))
		must(t, tx.Put([]byte("own"), nil))
		must(t, db.Put([]byte("read"), nil, nil))
		err := tx.Commit()
		if !errors.Is(err, kind) || errors.Is(err, ErrRetryable) != (kind != nil) {
			t.Fatalf("isolation %d: %v", isolation, err)
		}
	}
	_, err := db.Begin(&TransactionOptions{LockTimeout: -1})
	wants(t, err, ErrInvalid)
}

func TestTransactRepeats(t *testing.T) {
	db := inMemory(t, nil)
	increment := func(tx *Transaction) error {
		bytes, err := tx.GetForUpdate([]byte("count"))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		count, _ := strconv.Atoi(string(bytes))
		return tx.Put([]byte("count"), strconv.AppendInt(nil, int64(count+1), 10))
	}
	const goroutines, each = 4, 50
	var group sync.WaitGroup
	for at := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			options := &TransactionOptions{Locking: Locking(at % 2), LockTimeout: 10 * time.Second}
			for done := 0; done < each; {
				switch err := db.Transact(options, increment); {
				case err == nil:
					done++
				case !errors.Is(err, ErrRetryable):
					t.Error(err)
					return
				}
			}
		}()
	}
	group.Wait()
	equal(t, string(got[[]byte](t)(db.Get([]byte("count"), nil))), strconv.Itoa(goroutines*each))

	calls, stop := 0, errors.New("stop")
	wants(t, db.Transact(nil, func(tx *Transaction) error {
		calls++
		must(t, db.Put([]byte("count"), nil, nil))
		return increment(tx)
	}), nil)
	wants(t, db.Transact(nil, func(tx *Transaction) error {
		calls++
		must(t, increment(tx))
		must(t, db.Put([]byte("count"), nil, nil))
		return nil
	}), ErrConflict)
	wants(t, db.Transact(nil, func(tx *Transaction) error {
		must(t, tx.Put([]byte("stopped"), nil))
		return stop
	}), stop)
	equal(t, calls, 1+attemptsMax)
	equal(t, got[bool](t)(db.Has([]byte("stopped"), nil)), false)
}

func TestLocks(t *testing.T) {
	db := inMemory(t, nil)
	short := &TransactionOptions{Locking: Pessimistic, LockTimeout: time.Microsecond}
	long := &TransactionOptions{Locking: Pessimistic, LockTimeout: time.Minute}
	first, second := begin(t, db, short), begin(t, db, long)
	must(t, second.Put([]byte("b"), nil))
	wants(t, first.Put([]byte("b"), nil), ErrLockTimeout)
	first.Rollback()

	first = begin(t, db, long)
	must(t, first.Put([]byte("a"), nil))
	outcomes := make(chan error, 2)
	take := func(tx *Transaction, key string) {
		err := tx.Put([]byte(key), nil)
		tx.Rollback()
		outcomes <- err
	}
	go take(first, "b")
	go take(second, "a")
	one, other := <-outcomes, <-outcomes
	if one == nil {
		one, other = other, one
	}
	wants(t, one, ErrDeadlock)
	must(t, other)
}

func TestATransactionEndsWithItsStore(t *testing.T) {
	db, path := inDirectory(t, nil)
	tx := begin(t, db, nil)
	must(t, tx.Put([]byte("a"), nil))
	it := got[*Iterator](t)(tx.NewIterator(nil, nil))
	must(t, db.Close())
	for _, tx := range []*Transaction{tx, {}} {
		for _, err := range transactionErrors(tx) {
			wants(t, err, ErrClosed)
		}
		tx.Rollback()
	}
	it.Close()
	_, err := db.Begin(nil)
	wants(t, err, ErrClosed)
	db = got[*DB](t)(Open(path, nil))
	equal(t, got[bool](t)(db.Has([]byte("a"), nil)), false)
	must(t, db.Close())
}
