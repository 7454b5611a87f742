package terrace

import (
	"math"
	"reflect"
	"testing"
)

func TestABatchIsAppliedInOrder(t *testing.T) {
	db := inMemory(t, &Options{Set: map[string]string{"range_tombstones": "on"}})
	var first, batch Batch
	first.Put([]byte("a"), []byte("1"))
	first.Put([]byte("b"), []byte("1"))
	batch.DeleteRange(Range{[]byte("a"), []byte("z")})
	batch.Put([]byte("a"), []byte("2"))
	batch.Put([]byte("c"), make([]byte, 300))
	batch.Delete([]byte("c"))
	first.Append(&batch)
	if first.Len() != 6 || first.Size() <= batchHeader {
		t.Fatalf("%d operations, %d bytes", first.Len(), first.Size())
	}
	must(t, db.Write(&first, nil))
	must(t, db.Write(&first, Sync)) // again
	it, err := db.NewIterator(nil, nil)
	if found := pairs(t, it, err); !reflect.DeepEqual(found, []string{"a=2"}) {
		t.Fatalf("%q", found)
	}
	if last := got[uint64](t)(db.LastSequence()); last != 12 {
		t.Fatalf("sequence %d after 12 operations", last)
	}
}

func TestOpsReturnsWhatWasAdded(t *testing.T) {
	var batch Batch
	for range batch.Ops() {
		t.Fatal("an empty batch has an operation")
	}
	batch.Put([]byte("key"), nil)
	batch.Delete([]byte{})
	batch.DeleteRange(Range{[]byte("from"), []byte("to")})
	want := []Op{
		{OpPut, []byte("key"), []byte{}, nil},
		{OpDelete, []byte{}, nil, nil},
		{OpDeleteRange, []byte("from"), []byte("to"), nil},
	}
	var found []Op
	for op := range batch.Ops() {
		found = append(found, op)
	}
	if !reflect.DeepEqual(found, want) {
		t.Fatalf("%v", found)
	}
	batch.Clear()
	if batch.Len() != 0 || batch.Size() != batchHeader {
		t.Fatalf("after Clear: %d operations, %d bytes", batch.Len(), batch.Size())
	}
	must(t, inMemory(t, nil).Write(&batch, nil))
}

// An operation that does not fit refuses the whole batch, and every batch that contains it.
func TestABatchThatDoesNotFitIsRefused(t *testing.T) {
	db := inMemory(t, nil)
	var batch, other Batch
	batch.Put([]byte("a"), nil)
	batch.count = math.MaxUint32
	batch.Put([]byte("b"), nil)
	batch.count = 1
	other.Append(&batch)
	wants(t, db.Write(&batch, nil), ErrInvalid)
	wants(t, db.Write(&other, nil), ErrInvalid)
	if got[bool](t)(db.Has([]byte("a"), nil)) {
		t.Fatal("a part of a refused batch was applied")
	}
	batch.Clear()
	must(t, db.Write(&batch, nil))
	batch.DeleteRange(Range{})
	wants(t, db.Write(&batch, nil), ErrInvalid)
}

// The engine checks the encoding, even if this package is wrong.
func TestADamagedEncodingIsRefused(t *testing.T) {
	db := inMemory(t, nil)
	for _, damage := range []func(*Batch){
		func(b *Batch) { b.count++ },
		func(b *Batch) { b.bytes = b.bytes[:len(b.bytes)-1] },
		func(b *Batch) { b.bytes[batchHeader] = 99 },
		func(b *Batch) { b.bytes[batchHeader+1] = 0x7f },
	} {
		var batch Batch
		batch.Put([]byte("key"), []byte("value"))
		damage(&batch)
		wants(t, db.Write(&batch, nil), ErrInvalid)
	}
	if last := got[uint64](t)(db.LastSequence()); last != 0 {
		t.Fatalf("sequence %d after refused batches", last)
	}
}
