package terrace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
)

func TestReadsSeeWrites(t *testing.T) {
	db := inMemory(t, nil)
	// A short value, an empty one, one of exactly the size that one call copies, and longer ones.
	for _, length := range []int{5, 0, shortValue, shortValue + 1, 3 << 20} {
		value := bytes.Repeat([]byte{7}, length)
		key := fmt.Appendf(nil, "%d", length)
		must(t, db.Put(key, value, nil))
		found := got[[]byte](t)(db.Get(key, &ReadOptions{SkipCache: true, SkipChecksums: true}))
		if found == nil || !bytes.Equal(found, value) {
			t.Fatalf("%d bytes were put, %d returned", length, len(found))
		}
	}
	must(t, db.Put(nil, []byte("of the empty key"), Sync))
	if value := got[[]byte](t)(db.Get([]byte{}, nil)); string(value) != "of the empty key" {
		t.Fatalf("%q", value)
	}
	must(t, db.Delete([]byte("5"), Sync))
	_, err := db.Get([]byte("5"), nil)
	wants(t, err, ErrNotFound)
	if got[bool](t)(db.Has([]byte("5"), nil)) || !got[bool](t)(db.Has([]byte("0"), nil)) {
		t.Fatal("Has differs from Get")
	}
}

func TestAStoreKeepsItsPairs(t *testing.T) {
	db, path := inDirectory(t, nil)
	fill(t, db, 1000)
	must(t, db.Close())
	for round := range 2 {
		open := map[int]func(string, *Options) (*DB, error){0: OpenReadOnly, 1: Open}[round]
		db := got[*DB](t)(open(path, &Options{ErrorIfMissing: true}))
		it, err := db.NewIterator(nil, nil)
		if found := pairs(t, it, err); len(found) != 1000 || found[999] != "key000999=value 999" {
			t.Fatalf("%d pairs", len(found))
		}
		must(t, db.Close())
	}
	must(t, Destroy(path))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("after Destroy: %v", err)
	}
}

func TestMultiGetReturnsNilForAbsentKeysOnly(t *testing.T) {
	db := inMemory(t, nil)
	fill(t, db, 300)
	must(t, db.Put([]byte("empty"), nil, nil))
	keys := [][]byte{[]byte("absent"), []byte("empty"), nil, []byte("key000007"), []byte("key000007")}
	want := [][]byte{nil, {}, nil, []byte("value 7"), []byte("value 7")}
	if values := got[[][]byte](t)(db.MultiGet(keys, nil)); !reflect.DeepEqual(values, want) {
		t.Fatalf("%q", values)
	}
	if values := got[[][]byte](t)(db.MultiGet(nil, nil)); len(values) != 0 {
		t.Fatalf("%q", values)
	}
}

func TestASnapshotDoesNotSeeLaterWrites(t *testing.T) {
	db := inMemory(t, nil)
	fill(t, db, 3)
	before := got[*Snapshot](t)(db.Snapshot())
	must(t, db.DeleteRange(Range{}, nil))
	must(t, db.Put([]byte("new"), nil, nil))

	it, err := db.NewIterator(nil, nil)
	if now := pairs(t, it, err); !reflect.DeepEqual(now, []string{"new="}) {
		t.Fatalf("now: %q", now)
	}
	it, err = before.NewIterator(Prefix([]byte("key")), nil)
	must(t, err)
	before.Release() // the iterator remains
	before.Release()
	if old := pairs(t, it, nil); len(old) != 3 || old[2] != "key000002=value 2" {
		t.Fatalf("before: %q", old)
	}
	_, err = before.Get([]byte("key000001"), nil)
	wants(t, err, ErrClosed)
}

func TestDurableSequenceFollowsSyncs(t *testing.T) {
	db, _ := inDirectory(t, nil)
	fill(t, db, 10)
	last := got[uint64](t)(db.LastSequence())
	if durable := got[uint64](t)(db.DurableSequence()); last != 10 || durable >= last {
		t.Fatalf("sequence %d, durable up to %d", last, durable)
	}
	must(t, db.WaitDurable(last))
	if durable := got[uint64](t)(db.DurableSequence()); durable != 10 {
		t.Fatalf("durable up to %d", durable)
	}
	wants(t, db.WaitDurable(11), ErrInvalid)
	must(t, db.Put([]byte("a"), nil, &WriteOptions{DisableWAL: true}))
	must(t, db.Delete([]byte("a"), &WriteOptions{DisableWAL: true}))
	must(t, db.Put([]byte("b"), nil, Sync))
	if durable := got[uint64](t)(db.DurableSequence()); durable != 13 {
		t.Fatalf("durable up to %d", durable)
	}
}

func TestACheckpointIsAStoreOfItsOwn(t *testing.T) {
	db, path := inDirectory(t, nil)
	fill(t, db, 100)
	copied := path + "-copy"
	if sequence := got[uint64](t)(db.Checkpoint(copied)); sequence != 100 {
		t.Fatalf("the copy ends at sequence %d", sequence)
	}
	must(t, db.DeleteRange(Range{}, nil))
	other := got[*DB](t)(Open(copied, nil))
	defer other.Close()
	if value := got[[]byte](t)(other.Get([]byte("key000042"), nil)); string(value) != "value 42" {
		t.Fatalf("%q", value)
	}
	_, err := db.Checkpoint(copied)
	if err == nil {
		t.Fatal("a second checkpoint into the same directory succeeded")
	}
}

func TestMaintenance(t *testing.T) {
	db, _ := inDirectory(t, &Options{Set: map[string]string{"compression": "none"}})
	fill(t, db, 10_000)
	must(t, db.Flush())
	all := got[uint64](t)(db.ApproximateSize(Range{}))
	half := got[uint64](t)(db.ApproximateSize(Range{Limit: []byte("key005000")}))
	if half < all/3 || half > all*2/3 || all < 100_000 {
		t.Fatalf("%d bytes in all, %d in one half", all, half)
	}
	must(t, db.DeleteRange(Range{Start: []byte("key005000")}, nil))
	must(t, db.CompactRange(Range{}))
	if after := got[uint64](t)(db.ApproximateSize(Range{Limit: []byte("z")})); after > all*2/3 {
		t.Fatalf("%d bytes after half of %d were deleted and compacted", after, all)
	}
	must(t, db.Resume())
	if text := got[string](t)(db.Property("leveldb.stats")); text == "" {
		t.Fatal("leveldb.stats is empty")
	}
}

func TestRepairSalvagesPairs(t *testing.T) {
	db, path := inDirectory(t, nil)
	fill(t, db, 100)
	must(t, db.Close())
	must(t, os.Remove(filepath.Join(path, "CURRENT")))
	_, err := Open(path, nil)
	wants(t, err, ErrCorrupt)
	must(t, Repair(path, nil))
	db = got[*DB](t)(Open(path, &Options{ErrorIfMissing: true}))
	defer db.Close()
	if !got[bool](t)(db.Has([]byte("key000099"), nil)) {
		t.Fatal("the repaired store lacks a key")
	}
	if _, err := os.Stat(path + ".damaged-1"); err != nil {
		t.Fatal(err)
	}
}

// Goroutines write, read and scan while another one closes the store. They get ErrClosed, and the
// directory can be opened at once.
func TestCloseDuringCalls(t *testing.T) {
	for range 20 {
		db, path := inDirectory(t, nil)
		fill(t, db, 1000)
		must(t, db.Flush()) // an iterator over an SSTable holds the directory
		var running sync.WaitGroup
		calls := []func(*DB) error{writes, reads, scans, snapshots}
		results := make([]error, len(calls))
		for at, call := range calls {
			running.Add(1)
			go func() {
				defer running.Done()
				for results[at] == nil {
					results[at] = call(db)
				}
			}()
		}
		for range 50 {
			runtime.Gosched()
		}
		must(t, db.Close())
		running.Wait()
		for _, err := range results {
			wants(t, err, ErrClosed)
		}
		wants(t, db.Close(), ErrClosed)
		again := got[*DB](t)(Open(path, nil)) // no iterator or snapshot holds the directory
		must(t, again.Close())
	}
}

func writes(db *DB) error {
	var batch Batch
	batch.Put([]byte("a"), make([]byte, 1000))
	if err := db.Write(&batch, nil); err != nil {
		return err
	}
	return db.Put([]byte("b"), nil, nil)
}

func reads(db *DB) error {
	if _, err := db.MultiGet([][]byte{[]byte("key000500"), []byte("absent")}, nil); err != nil {
		return err
	}
	_, err := db.Get([]byte("key000500"), nil)
	return err
}

// scans leaves its iterator open, which closing the store must then destroy.
func scans(db *DB) error {
	it, err := db.NewIterator(nil, nil)
	if err != nil {
		return err
	}
	for it.Next() {
	}
	return it.Error()
}

func snapshots(db *DB) error {
	snapshot, err := db.Snapshot()
	if err != nil {
		return err
	}
	_, err = snapshot.Get([]byte("key000500"), nil)
	go snapshot.Release()
	return err
}
