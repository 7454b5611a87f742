package terrace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachKindOfError(t *testing.T) {
	db, path := inDirectory(t, nil)
	_, err := db.Get([]byte("absent"), nil)
	wants(t, err, ErrNotFound)
	_, err = db.Property("terrace.nonsense")
	wants(t, err, ErrNotFound)
	_, err = Open(path, nil)
	wants(t, err, ErrLocked)
	wants(t, Destroy(path), ErrLocked)
	wants(t, Repair(path, nil), ErrLocked)

	var batch Batch
	batch.DeleteRange(Range{[]byte("a"), []byte("b")})
	wants(t, db.Write(&batch, nil), ErrNotSupported)
	wants(t, db.Write(nil, nil), ErrInvalid)
	wants(t, db.Put(nil, nil, &WriteOptions{Sync: true, DisableWAL: true}), ErrInvalid)
	wants(t, db.DeleteRange(Range{}, &WriteOptions{DisableWAL: true}), ErrInvalid)
	must(t, db.Close())

	_, err = Open(path, &Options{ErrorIfExists: true})
	wants(t, err, ErrInvalid)
	_, err = Open(path+"-absent", &Options{ErrorIfMissing: true})
	wants(t, err, ErrNotExist)
	wants(t, err, fs.ErrNotExist)
	_, err = OpenReadOnly(path+"-absent", nil)
	wants(t, err, ErrNotExist)
	_, err = Open("/dev/null/store", nil)
	wants(t, err, ErrIO)
	wants(t, ErrNoSpace, ErrIO)

	db = got[*DB](t)(OpenReadOnly(path, nil))
	defer db.Close()
	wants(t, db.Put(nil, nil, nil), ErrReadOnly)
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, options := range []Options{
		{Preset: "nonsense"},
		{Set: map[string]string{"nonsense": "1"}},
		{Set: map[string]string{"nonsense\x00": "1"}},
		{Set: map[string]string{"write_buffer_size": "nonsense"}},
		{Set: map[string]string{"write_buffer_size": "nonsense\x00"}},
	} {
		_, err := OpenInMemory(&options)
		wants(t, err, ErrInvalid)
		if !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%v does not name the bad part of %v", err, options)
		}
	}
	_, err := Open("a\x00b", nil)
	wants(t, err, ErrInvalid)
}

// The kind survives if the scan meets the damage in the middle of a chunk.
func TestAScanReportsCorruption(t *testing.T) {
	db, path := inDirectory(t, &Options{Set: map[string]string{"compression": "none"}})
	fill(t, db, 10_000)
	must(t, db.Flush())
	must(t, db.Close())
	tables, _ := filepath.Glob(filepath.Join(path, "*.ldb"))
	if len(tables) != 1 {
		t.Fatalf("SSTables: %q", tables)
	}
	bytes, err := os.ReadFile(tables[0])
	must(t, err)
	bytes[len(bytes)/2] ^= 0xff
	must(t, os.WriteFile(tables[0], bytes, 0o666))

	db = got[*DB](t)(Open(path, nil))
	defer db.Close()
	it := got[*Iterator](t)(db.NewIterator(nil, nil))
	defer it.Close()
	count := 0
	for it.Next() {
		count++
	}
	wants(t, it.Error(), ErrCorrupt)
	if count < 1000 || count > 9000 || it.Valid() || it.Key() != nil || it.Next() || it.Prev() {
		t.Fatalf("the scan found %d pairs before the damage", count)
	}
	if !it.First() || it.Error() != nil || string(it.Key()) != "key000000" {
		t.Fatalf("First after an error: %q, %v", it.Key(), it.Error())
	}
}

// Every method of a closed or zero store, snapshot and iterator returns ErrClosed.
func TestUseAfterClose(t *testing.T) {
	db := inMemory(t, nil)
	fill(t, db, 100)
	snapshot := got[*Snapshot](t)(db.Snapshot())
	started := got[*Iterator](t)(db.NewIterator(nil, nil))
	fresh := got[*Iterator](t)(snapshot.NewIterator(nil, nil))
	started.Next()
	must(t, db.Close())
	for _, db := range []*DB{db, {}} {
		for at, err := range storeErrors(db) {
			if err != ErrClosed {
				t.Errorf("call %d: %v", at, err)
			}
		}
	}
	for _, snapshot := range []*Snapshot{snapshot, {}} {
		_, err := snapshot.MultiGet(nil, nil)
		wants(t, err, ErrClosed)
		snapshot.Release()
	}
	closed := got[*Iterator](t)(inMemory(t, nil).NewIterator(nil, nil))
	closed.Close()
	for _, it := range []*Iterator{started, fresh, closed, {}} {
		if it.Next() || it.Prev() || it.First() || it.Last() || it.Seek(nil) || it.Valid() || it.Key() != nil || it.Value() != nil {
			t.Error("a closed iterator moved")
		}
		for range it.All() {
			t.Error("a closed iterator moved")
		}
		wants(t, it.Error(), ErrClosed)
		it.Close()
	}
}

func storeErrors(db *DB) []error {
	second := func(_ any, err error) error { return err }
	_, get := db.Get(nil, nil)
	_, has := db.Has(nil, nil)
	_, multi := db.MultiGet(nil, nil)
	_, it := db.NewIterator(nil, nil)
	_, snapshot := db.Snapshot()
	return []error{
		get, has, multi, it, snapshot,
		db.Put(nil, nil, nil), db.Put(nil, nil, &WriteOptions{DisableWAL: true}), db.Delete(nil, Sync),
		db.Write(&Batch{}, nil), db.DeleteRange(Range{}, nil), db.DeleteRange(Range{Limit: []byte("z")}, nil),
		second(db.LastSequence()), second(db.DurableSequence()), db.WaitDurable(0),
		db.Flush(), db.CompactRange(Range{}), db.Resume(), second(db.ApproximateSize(Range{})),
		second(db.ColumnFamily("default")), second(db.CreateColumnFamily("a")), second(db.ColumnFamilies()),
		db.DropColumnFamily("a"), second(db.Ingest()), second(db.Export("/nowhere", nil)), second(db.Begin(nil)), db.Transact(nil, nil),
		second(db.Checkpoint("/nowhere")), second(db.Property("leveldb.stats")), db.Close(),
	}
}

// Damage to synced writes in the WAL is refused, unless the options say otherwise.
func TestADamagedWAL(t *testing.T) {
	db, path := inDirectory(t, nil)
	for range 3 {
		must(t, db.Put([]byte("key"), []byte("value"), Sync))
	}
	damaged := filepath.Join(t.TempDir(), "store")
	must(t, os.CopyFS(damaged, os.DirFS(path))) // as after the end of the process
	log, err := os.OpenFile(filepath.Join(damaged, "000002.log"), os.O_WRONLY, 0)
	must(t, err)
	_, err = log.WriteAt([]byte("?"), 20)
	must(t, err)
	must(t, log.Close())
	for _, preset := range []string{"", "leveldb"} {
		_, err = Open(damaged, &Options{Preset: preset})
		wants(t, err, ErrCorrupt)
	}
	must(t, got[*DB](t)(Open(damaged, &Options{Set: map[string]string{"recovery": "salvage"}})).Close())
}
