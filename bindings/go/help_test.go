package terrace

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// must fails the test if a call failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got returns the value of a call that must not fail.
func got[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// wants fails the test if the error is not of the kind.
func wants(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("the error is %q, not of the kind %q", fmt.Sprint(err), kind)
	}
}

// inMemory opens a store that the test closes at its end, if it is still open.
func inMemory(t testing.TB, options *Options) *DB {
	t.Helper()
	db := got[*DB](t)(OpenInMemory(options))
	t.Cleanup(func() { db.Close() })
	return db
}

// inDirectory opens a new store in a directory, and returns its path.
func inDirectory(t testing.TB, options *Options) (*DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	db := got[*DB](t)(Open(path, options))
	t.Cleanup(func() { db.Close() })
	return db, path
}

// pairs returns all pairs of an iterator as "key=value", and closes it.
func pairs(t testing.TB, it *Iterator, err error) []string {
	t.Helper()
	must(t, err)
	defer it.Close()
	found := []string{}
	for it.Next() {
		found = append(found, string(it.Key())+"="+string(it.Value()))
	}
	must(t, it.Error())
	return found
}

// fill puts count keys, key000000 and so on.
func fill(t testing.TB, db *DB, count int) {
	t.Helper()
	var batch Batch
	for at := range count {
		batch.Put(fmt.Appendf(nil, "key%06d", at), fmt.Appendf(nil, "value %d", at))
	}
	must(t, db.Write(&batch, nil))
}
