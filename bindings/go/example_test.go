package terrace_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	terrace "github.com/terrace-db/terrace/bindings/go"
)

// open returns a store in memory for an example.
func open() *terrace.DB {
	db, err := terrace.OpenInMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// folder returns a new directory, and a function that removes it.
func folder() (string, func()) {
	path, err := os.MkdirTemp("", "terrace")
	must(err)
	return path, func() { os.RemoveAll(path) }
}

func Example() {
	place, remove := folder()
	defer remove()
	db, err := terrace.Open(filepath.Join(place, "cities"), nil)
	must(err)
	defer db.Close()

	must(db.Put([]byte("city/oslo"), []byte("709 000"), nil))            // survives the end of this process
	must(db.Put([]byte("city/bergen"), []byte("291 000"), terrace.Sync)) // and a power cut, with all before it

	it, err := db.NewIterator(terrace.Prefix([]byte("city/")), nil)
	must(err)
	defer it.Close()
	for it.Next() {
		fmt.Printf("%s: %s\n", it.Key(), it.Value())
	}
	must(it.Error())
	// Output:
	// city/bergen: 291 000
	// city/oslo: 709 000
}

func ExampleOpen() {
	place, remove := folder()
	defer remove()
	db, err := terrace.Open(place, &terrace.Options{
		Preset: "leveldb",
		Set:    map[string]string{"write_buffer_size": "64MiB"},
	})
	must(err)
	_, err = terrace.Open(place, nil)
	fmt.Println(errors.Is(err, terrace.ErrLocked))
	must(db.Close())
	// Output: true
}

func ExampleOpenReadOnly() {
	place, remove := folder()
	defer remove()
	_, err := terrace.OpenReadOnly(filepath.Join(place, "absent"), nil)
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}

func ExampleOpenInMemory() {
	db, err := terrace.OpenInMemory(nil)
	must(err)
	must(db.Put([]byte("key"), []byte("value"), nil))
	must(db.Close())
	_, err = db.Get([]byte("key"), nil)
	fmt.Println(err)
	// Output: terrace: closed
}

func ExampleDB_Get() {
	db := open()
	defer db.Close()
	must(db.Put([]byte("key"), []byte("value"), nil))
	value, err := db.Get([]byte("key"), nil)
	must(err)
	_, absent := db.Get([]byte("other"), nil)
	fmt.Println(string(value), errors.Is(absent, terrace.ErrNotFound))
	// Output: value true
}

func ExampleDB_MultiGet() {
	db := open()
	defer db.Close()
	must(db.Put([]byte("a"), []byte("1"), nil))
	must(db.Put([]byte("c"), nil, nil))
	values, err := db.MultiGet([][]byte{[]byte("a"), []byte("b"), []byte("c")}, nil)
	must(err)
	fmt.Printf("%q %v %q\n", values[0], values[1] == nil, values[2])
	// Output: "1" true ""
}

func ExampleDB_Write() {
	db := open()
	defer db.Close()
	var batch terrace.Batch
	batch.Put([]byte("from"), []byte("60"))
	batch.Put([]byte("to"), []byte("40"))
	batch.Delete([]byte("pending"))
	must(db.Write(&batch, terrace.Sync)) // all of it or nothing
	sequence, err := db.LastSequence()
	must(err)
	fmt.Println(batch.Len(), "operations, the last one with sequence number", sequence)
	// Output: 3 operations, the last one with sequence number 3
}

func ExampleBatch_Ops() {
	var batch terrace.Batch
	batch.Put([]byte("a"), []byte("1"))
	batch.Delete([]byte("b"))
	for op := range batch.Ops() {
		fmt.Println(op.Kind == terrace.OpPut, string(op.Key), string(op.Value))
	}
	// Output:
	// true a 1
	// false b
}

func ExampleDB_NewIterator() {
	db := open()
	defer db.Close()
	for _, key := range []string{"ant", "bee", "cat", "dog"} {
		must(db.Put([]byte(key), nil, nil))
	}
	it, err := db.NewIterator(&terrace.Range{Start: []byte("b"), Limit: []byte("dog")}, nil)
	must(err)
	defer it.Close()
	for key := range it.Backward() {
		fmt.Println(string(key))
	}
	must(it.Error())
	// Output:
	// cat
	// bee
}

func ExampleIterator_Seek() {
	db := open()
	defer db.Close()
	must(db.Put([]byte("ant"), nil, nil))
	must(db.Put([]byte("cat"), nil, nil))
	it, err := db.NewIterator(nil, nil)
	must(err)
	defer it.Close()
	fmt.Println(it.Seek([]byte("bee")), string(it.Key()))
	fmt.Println(it.Prev(), string(it.Key()))
	// Output:
	// true cat
	// true ant
}

func ExampleDB_Snapshot() {
	db := open()
	defer db.Close()
	must(db.Put([]byte("key"), []byte("old"), nil))
	before, err := db.Snapshot()
	must(err)
	defer before.Release()
	must(db.Put([]byte("key"), []byte("new"), nil))
	value, err := before.Get([]byte("key"), nil)
	must(err)
	fmt.Println(string(value))
	// Output: old
}

func ExampleDB_DeleteRange() {
	db := open()
	defer db.Close()
	for _, key := range []string{"draft/1", "draft/2", "final"} {
		must(db.Put([]byte(key), nil, nil))
	}
	must(db.DeleteRange(*terrace.Prefix([]byte("draft/")), nil))
	gone, err := db.Has([]byte("draft/1"), nil)
	must(err)
	kept, err := db.Has([]byte("final"), nil)
	must(err)
	fmt.Println(gone, kept)
	// Output: false true
}

func ExampleDB_WaitDurable() {
	place, remove := folder()
	defer remove()
	db, err := terrace.Open(place, nil)
	must(err)
	defer db.Close()
	for number := range 100 {
		must(db.Put(fmt.Appendf(nil, "key %d", number), nil, nil))
	}
	last, err := db.LastSequence()
	must(err)
	must(db.WaitDurable(last)) // one sync for all of them
	durable, err := db.DurableSequence()
	must(err)
	fmt.Println(durable)
	// Output: 100
}

func ExampleDB_Checkpoint() {
	place, remove := folder()
	defer remove()
	db, err := terrace.Open(filepath.Join(place, "store"), nil)
	must(err)
	defer db.Close()
	must(db.Put([]byte("key"), []byte("value"), nil))
	sequence, err := db.Checkpoint(filepath.Join(place, "copy"))
	must(err)
	fmt.Println("the copy has all writes up to", sequence)
	// Output: the copy has all writes up to 1
}

func ExampleDB_CompactRange() {
	db := open()
	defer db.Close()
	must(db.Put([]byte("key"), nil, nil))
	must(db.Delete([]byte("key"), nil))
	must(db.CompactRange(terrace.Range{})) // nothing remains of it
	size, err := db.ApproximateSize(terrace.Range{})
	must(err)
	fmt.Println(size)
	// Output: 0
}

func ExampleDB_Property() {
	db := open()
	defer db.Close()
	files, err := db.Property("leveldb.num-files-at-level0")
	must(err)
	fmt.Println(files)
	// Output: 0
}

func ExampleRepair() {
	place, remove := folder()
	defer remove()
	path := filepath.Join(place, "store")
	db, err := terrace.Open(path, nil)
	must(err)
	must(db.Put([]byte("key"), []byte("value"), nil))
	must(db.Close())
	must(os.Remove(filepath.Join(path, "CURRENT"))) // the damage

	_, err = terrace.Open(path, nil)
	fmt.Println(errors.Is(err, terrace.ErrCorrupt))
	must(terrace.Repair(path, nil))
	db, err = terrace.Open(path, nil)
	must(err)
	value, err := db.Get([]byte("key"), nil)
	must(err)
	must(db.Close())
	fmt.Println(string(value))
	// Output:
	// true
	// value
}

func ExampleDestroy() {
	place, remove := folder()
	defer remove()
	path := filepath.Join(place, "store")
	db, err := terrace.Open(path, nil)
	must(err)
	must(db.Close())
	must(terrace.Destroy(path))
	_, err = os.Stat(path)
	fmt.Println(os.IsNotExist(err))
	// Output: true
}

func ExampleDB_CreateColumnFamily() {
	db := open()
	defer db.Close()
	users, err := db.CreateColumnFamily("users")
	must(err)
	var batch terrace.Batch
	batch.PutCF(users, []byte("1"), []byte("ann"))
	batch.Put([]byte("count"), []byte("1"))
	must(db.Write(&batch, nil)) // both or none
	value, err := users.Get([]byte("1"), nil)
	must(err)
	fmt.Printf("%s\n", value)
	// Output: ann
}

func ExampleDB_Transact() {
	db := open()
	defer db.Close()
	must(db.Put([]byte("ann"), []byte("100"), nil))
	// The function runs again after a conflict.
	err := db.Transact(&terrace.TransactionOptions{Sync: true}, func(t *terrace.Transaction) error {
		balance, err := t.GetForUpdate([]byte("ann"))
		if err != nil {
			return err
		}
		if err := t.Put([]byte("bob"), balance); err != nil {
			return err
		}
		return t.Delete([]byte("ann"))
	})
	must(err)
	value, err := db.Get([]byte("bob"), nil)
	must(err)
	fmt.Printf("%s\n", value)
	// Output: 100
}

func ExampleDB_Begin() {
	db := open()
	defer db.Close()
	first, err := db.Begin(nil)
	must(err)
	defer first.Rollback()
	_, err = first.Get([]byte("key"))
	fmt.Println(errors.Is(err, terrace.ErrNotFound))
	must(db.Put([]byte("key"), []byte("1"), nil)) // changes what the transaction has read
	must(first.Put([]byte("other"), []byte("1")))
	fmt.Println(errors.Is(first.Commit(), terrace.ErrConflict))
	// Output:
	// true
	// true
}
