package bbolt

import (
	"bytes"
	stderrors "errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt/errors"
)

// sample makes a database with nested buckets, a sequence, and values from none to 100 kB.
func sample(t *testing.T) *DB {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	must(t, db.Update(func(tx *Tx) error {
		outer, err := tx.CreateBucket([]byte("outer"))
		must(t, err)
		inner, err := outer.CreateBucket([]byte("inner"))
		must(t, err)
		must(t, inner.SetSequence(42))
		for length := 1; length <= 100_000; length *= 10 {
			must(t, inner.Put(fmt.Appendf(nil, "%d", length), bytes.Repeat([]byte{7}, length)))
		}
		return outer.Put([]byte("empty"), nil)
	}))
	return db
}

func archive(t *testing.T, db *DB) []byte {
	var written bytes.Buffer
	must(t, db.View(func(tx *Tx) error {
		n, err := tx.WriteTo(&written)
		if n != tx.Size() || n != int64(written.Len()) {
			t.Fatalf("WriteTo returned %d, wrote %d, and Size is %d", n, written.Len(), tx.Size())
		}
		return err
	}))
	return written.Bytes()
}

func TestAnArchiveOpensAsADatabase(t *testing.T) {
	db := sample(t)
	written := archive(t, db)
	path := filepath.Join(t.TempDir(), "copy")
	must(t, os.WriteFile(path, written, 0o600))
	read, err := Open(path, 0o600, &Options{ReadOnly: true})
	must(t, err)
	if !bytes.Equal(archive(t, read), written) {
		t.Fatal("the database in memory differs")
	}
	must(t, read.Close())
	if unchanged, err := os.ReadFile(path); err != nil || !bytes.Equal(unchanged, written) {
		t.Fatalf("an Open for reading only changed the archive: %v", err)
	}
	copied := open(t, path)
	copied.mustCheck()
	if !bytes.Equal(archive(t, copied), written) {
		t.Fatal("the database differs")
	}
	must(t, copied.Update(func(tx *Tx) error {
		inner := tx.Bucket([]byte("outer")).Bucket([]byte("inner"))
		if next, err := inner.NextSequence(); err != nil || next != 43 {
			t.Fatalf("sequence %d, %v", next, err)
		}
		return tx.DeleteBucket([]byte("outer"))
	}))
	if left := archive(t, copied); len(left) != int(emptyArchive) {
		t.Fatalf("%d bytes after the last bucket was deleted", len(left))
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Fatalf("next to the database: %v", entries)
	}
}

// Of several Opens of an archive at the same time one unpacks it, and the others wait until the
// database is closed or their time is over. Remains of an interrupted Open do not matter.
func TestSeveralOpensOfAnArchive(t *testing.T) {
	written := archive(t, sample(t))
	for range 20 {
		path := filepath.Join(t.TempDir(), "copy")
		must(t, os.WriteFile(path, written, 0o600))
		must(t, os.MkdirAll(path+".import-1/store", 0o700))
		must(t, os.WriteFile(path+".import-1/store/LOCK", nil, 0o600))
		failures := make(chan error)
		for range 4 {
			go func() {
				db, err := Open(path, 0o600, nil)
				if err == nil {
					db.mustCheck()
					err = db.Close()
				}
				failures <- err
			}()
		}
		for range 4 {
			must(t, <-failures)
		}
		if !bytes.Equal(archive(t, open(t, path)), written) {
			t.Fatal("the database differs")
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
			t.Fatalf("next to the database: %v", entries)
		}
	}
	path := filepath.Join(t.TempDir(), "locked")
	must(t, os.WriteFile(path, written, 0o600))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	must(t, lockArchive(file, 0))
	if _, err := Open(path, 0o600, &Options{Timeout: lockPause}); err != errors.ErrTimeout {
		t.Fatalf("%v", err)
	}
}

// Every cut and every changed byte of an archive is found, and Open leaves the file as it is.
func TestADamagedArchiveIsRefused(t *testing.T) {
	whole := archive(t, sample(t))
	path := filepath.Join(t.TempDir(), "copy")
	refused := func(damaged []byte, kinds ...error) {
		t.Helper()
		must(t, os.WriteFile(path, damaged, 0o600))
		_, err := Open(path, 0o600, nil)
		for _, kind := range kinds {
			if stderrors.Is(err, kind) {
				if left, _ := os.ReadFile(path); !bytes.Equal(left, damaged) {
					t.Fatal("the file changed")
				}
				return
			}
		}
		t.Fatalf("%d bytes: %v", len(damaged), err)
	}
	refused([]byte("something else"), errors.ErrInvalid)
	for step := 1; step < len(whole); step += len(whole) / 40 {
		refused(whole[:step], errors.ErrChecksum, errors.ErrInvalid)
		damaged := bytes.Clone(whole)
		damaged[step] ^= 0x55
		refused(damaged, errors.ErrChecksum, errors.ErrInvalid)
	}
}

func TestOpenRefusesOtherDirectories(t *testing.T) {
	path := t.TempDir()
	must(t, os.WriteFile(filepath.Join(path, "letter"), nil, 0o600))
	if _, err := Open(path, 0o600, nil); err != errors.ErrInvalid {
		t.Fatalf("%v", err)
	}
	for _, options := range []*Options{{Mlock: true}, {OpenFile: os.OpenFile}} {
		if _, err := Open(filepath.Join(path, "db"), 0o600, options); err == nil {
			t.Fatalf("%s was accepted", options)
		}
	}
}

// Check finds entries of a bucket that does not exist, and a wrong size.
func TestCheckFindsContradictions(t *testing.T) {
	db := sample(t)
	must(t, db.store.Put(entryKey(99, []byte("lost")), entry{value: []byte("pair")}.encode(), nil))
	count := 0
	must(t, db.View(func(tx *Tx) error {
		for err := range tx.Check() {
			t.Log(err)
			count++
		}
		return nil
	}))
	if count != 2 {
		t.Fatalf("%d contradictions", count)
	}
}

// A commit beyond MaxSize fails as a whole, and one that shrinks the database succeeds.
func TestMaxSizeLimitsGrowth(t *testing.T) {
	db := sample(t)
	db.MaxSize = 1000
	put := func(tx *Tx) error { return tx.Bucket([]byte("outer")).Put([]byte("more"), []byte("value")) }
	if err := db.Update(put); err != errors.ErrMaxSizeReached {
		t.Fatalf("%v", err)
	}
	must(t, db.Update(func(tx *Tx) error { return tx.Bucket([]byte("outer")).Delete([]byte("empty")) }))
	db.MaxSize = 0
	must(t, db.Update(put))
	db.mustCheck()
}

func TestCompactCopiesEverything(t *testing.T) {
	from := sample(t)
	to := open(t, filepath.Join(t.TempDir(), "db"))
	must(t, Compact(to, from, 1000))
	structure := func(db *DB) (found string) {
		must(t, db.View(func(tx *Tx) error {
			found = fmt.Sprintf("%+v %d", tx.Inspect(), tx.Bucket([]byte("outer")).Bucket([]byte("inner")).Sequence())
			return nil
		}))
		return found
	}
	if structure(to) != structure(from) || len(archive(t, to)) != len(archive(t, from)) {
		t.Fatalf("%s\n%s", structure(to), structure(from))
	}
	to.mustCheck()
}

// A target that is closed between two transactions of a compaction ends it with an error.
func TestCompactIntoAClosedDatabase(t *testing.T) {
	from := sample(t)
	must(t, from.Update(func(tx *Tx) error {
		for at := range 20_000 {
			must(t, tx.Bucket([]byte("outer")).Put(fmt.Appendf(nil, "%05d", at), nil))
		}
		return nil
	}))
	to := open(t, filepath.Join(t.TempDir(), "db"))
	to.NoSync = true
	go func() {
		for to.writer.TryLock() { // until the first transaction begins
			to.writer.Unlock()
		}
		to.Close()
	}()
	if err := Compact(to, from, 1); err != errors.ErrDatabaseNotOpen {
		t.Fatalf("%v", err)
	}
}
