package terrace

import (
	"path/filepath"
	"reflect"
	"sync"
	"testing"
)

// family creates a column family.
func family(t testing.TB, db *DB, name string) *ColumnFamily {
	t.Helper()
	return got[*ColumnFamily](t)(db.CreateColumnFamily(name))
}

// equal fails the test if two values differ.
func equal(t testing.TB, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

// all returns all pairs of a family.
func all(t testing.TB, f *ColumnFamily) []string {
	t.Helper()
	it, err := f.NewIterator(nil, nil)
	return pairs(t, it, err)
}

func TestFamiliesAreCreatedOpenedAndDropped(t *testing.T) {
	db, path := inDirectory(t, nil)
	users := family(t, db, "users")
	equal(t, users.Name(), "users")
	must(t, users.Put([]byte("1"), []byte("ann"), Sync))
	_, err := db.CreateColumnFamily("users")
	wants(t, err, ErrInvalid)
	_, err = db.ColumnFamily("absent")
	wants(t, err, ErrNotFound)
	_, err = db.ColumnFamily("a\x00b")
	wants(t, err, ErrInvalid)
	must(t, db.Close())

	db = got[*DB](t)(Open(path, nil)) // the handle of users does not keep the directory locked
	defer db.Close()
	equal(t, got[[]string](t)(db.ColumnFamilies()), []string{"default", "users"})
	users = got[*ColumnFamily](t)(db.ColumnFamily("users"))
	equal(t, all(t, users), []string{"1=ann"})
	it := got[*Iterator](t)(users.NewIterator(nil, nil))
	wants(t, db.DropColumnFamily("default"), ErrInvalid)
	must(t, db.DropColumnFamily("users"))
	wants(t, db.DropColumnFamily("users"), ErrNotFound)
	equal(t, pairs(t, it, nil), []string{"1=ann"})
	for at, err := range familyErrors(users) {
		t.Log(at)
		wants(t, err, ErrInvalid)
	}
}

func familyErrors(f *ColumnFamily) []error {
	second := func(_ any, err error) error { return err }
	scan := func() error {
		it, err := f.NewIterator(nil, nil)
		if err != nil {
			return err
		}
		defer it.Close()
		it.Next()
		return it.Error()
	}
	return []error{
		second(f.Get(nil, nil)), second(f.Has(nil, nil)), second(f.MultiGet([][]byte{nil}, nil)), scan(),
		f.Put(nil, nil, nil), f.Put(nil, nil, &WriteOptions{DisableWAL: true}), f.Delete(nil, Sync),
		f.DeleteRange(Range{Limit: []byte("z")}, nil), f.CompactRange(Range{}),
		second(f.ApproximateSize(Range{Limit: []byte("z")})), second(f.Export("/nowhere", nil)),
	}
}

func TestAFamilyIsAKeySpace(t *testing.T) {
	db := inMemory(t, nil)
	users := family(t, db, "users")
	for _, key := range []string{"a", "b", "c", "d"} {
		must(t, users.Put([]byte(key), []byte(key+key), nil))
	}
	must(t, users.Put([]byte("e"), nil, &WriteOptions{DisableWAL: true}))
	must(t, users.Delete([]byte("e"), &WriteOptions{DisableWAL: true}))
	must(t, users.Delete([]byte("d"), nil))
	equal(t, string(got[[]byte](t)(users.Get([]byte("a"), nil))), "aa")
	equal(t, got[bool](t)(users.Has([]byte("d"), nil)), false)
	_, err := db.Get([]byte("a"), nil)
	wants(t, err, ErrNotFound)
	equal(t, got[[][]byte](t)(users.MultiGet([][]byte{[]byte("b"), []byte("x")}, nil)), [][]byte{[]byte("bb"), nil})
	it, err := users.NewIterator(&Range{Start: []byte("b"), Limit: []byte("c")}, nil)
	equal(t, pairs(t, it, err), []string{"b=bb"})
	must(t, users.DeleteRange(Range{Start: []byte("b")}, nil))
	equal(t, all(t, users), []string{"a=aa"})
	must(t, users.CompactRange(Range{}))
	if got[uint64](t)(users.ApproximateSize(Range{})) == 0 {
		t.Fatal("a compacted family has no size")
	}
}

func TestExportAndIngest(t *testing.T) {
	db, directory := inMemory(t, nil), t.TempDir()
	users := family(t, db, "users")
	must(t, users.Put([]byte("a"), []byte("1"), nil))
	must(t, users.Put([]byte("b"), []byte("2"), nil))
	equal(t, got[int](t)(users.Export(directory, &Range{Start: []byte("b")})), 1)
	table := filepath.Join(directory, "000001.ldb")
	equal(t, got[uint64](t)(db.Ingest(table)), uint64(1))
	it, err := db.NewIterator(nil, nil)
	equal(t, pairs(t, it, err), []string{"b=2"})
	_, err = db.Export(directory, nil)
	wants(t, err, ErrIO) // the file exists
	equal(t, got[uint64](t)(users.Ingest(table)), uint64(1))
	_, err = users.Ingest(filepath.Join(directory, "absent"))
	wants(t, err, ErrIO)
}

func TestBatchesAndSnapshotsCoverFamilies(t *testing.T) {
	db := inMemory(t, nil)
	users, mail := family(t, db, "users"), family(t, db, "by mail")
	var batch, other Batch
	other.PutCF(mail, []byte("m"), []byte("1"))
	batch.Put([]byte("count"), []byte("1"))
	batch.PutCF(users, []byte("1"), []byte("ann"))
	batch.PutCF(users, []byte("2"), []byte("bob"))
	batch.Append(&other)
	batch.DeleteCF(users, []byte("2"))
	batch.PutCF(nil, []byte("default"), nil)
	must(t, db.Write(&batch, nil))
	equal(t, all(t, users), []string{"1=ann"})
	equal(t, all(t, mail), []string{"m=1"})
	it, err := db.NewIterator(nil, nil)
	equal(t, pairs(t, it, err), []string{"count=1", "default="})
	var ops []Op
	for op := range batch.Ops() {
		ops = append(ops, op)
	}
	equal(t, ops[3], Op{OpPut, []byte("m"), []byte("1"), mail})
	equal(t, ops[4], Op{OpDelete, []byte("2"), nil, users})

	snapshot := got[*Snapshot](t)(db.Snapshot())
	must(t, users.Put([]byte("1"), []byte("late"), nil))
	seen := got[*FamilySnapshot](t)(snapshot.ColumnFamily(users))
	equal(t, string(got[[]byte](t)(seen.Get([]byte("1"), nil))), "ann")
	snapshot.Release()
	_, err = seen.Get([]byte("1"), nil)
	wants(t, err, ErrClosed)

	batch.Clear()
	batch.DeleteRangeCF(users, Range{Limit: []byte("z")})
	wants(t, db.Write(&batch, nil), ErrNotSupported)
	batch.Clear()
	batch.DeleteRangeCF(users, Range{})
	wants(t, db.Write(&batch, nil), ErrInvalid)
}

func TestAFamilyOfAnotherStoreIsRefused(t *testing.T) {
	db, users := inMemory(t, nil), family(t, inMemory(t, nil), "users")
	var batch Batch
	batch.PutCF(users, nil, nil)
	wants(t, db.Write(&batch, nil), ErrInvalid)
	_, err := got[*Snapshot](t)(db.Snapshot()).ColumnFamily(users)
	wants(t, err, ErrInvalid)
	transaction := got[*Transaction](t)(db.Begin(nil))
	wants(t, transaction.PutCF(users, nil, nil), ErrInvalid)
	batch.Clear()
	batch.PutCF(&ColumnFamily{}, nil, nil)
	wants(t, db.Write(&batch, nil), ErrClosed)
}

// A released, zero or closed family returns ErrClosed.
func TestUseAfterReleaseOfAFamily(t *testing.T) {
	db := inMemory(t, nil)
	users, kept := family(t, db, "users"), family(t, db, "kept")
	var batch Batch
	batch.PutCF(users, nil, nil)
	users.Release()
	users.Release()
	wants(t, db.Write(&batch, nil), ErrClosed)
	must(t, db.Close())
	for _, f := range []*ColumnFamily{users, kept, {}} {
		for _, err := range familyErrors(f) {
			wants(t, err, ErrClosed)
		}
		f.Release()
	}
}

func TestReleaseDuringCalls(t *testing.T) {
	db := inMemory(t, nil)
	users := family(t, db, "users")
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			var err error
			for err == nil {
				err = users.Put([]byte("a"), nil, nil)
			}
			if err != ErrClosed {
				t.Error(err)
			}
		}()
	}
	users.Release()
	group.Wait()
}
