package terrace

import (
	"encoding/binary"
	"iter"
	"math"
)

// Batch is a sequence of operations that [DB.Write] applies all or not at all. The zero value is an
// empty batch. A batch copies keys and values. Only one goroutine at a time may use it.
type Batch struct {
	// The encoding of LevelDB's WriteBatch (docs/format/batch.md): the sequence number, which is
	// not used here, the number of operations, then the operations. Empty before the first one.
	bytes []byte
	count uint32
	err   error // the first operation that does not fit the format
}

// OpKind is the kind of an operation. The numbers are those of the encoding.
type OpKind byte

// The kinds of operations.
const (
	OpDelete      OpKind = 0
	OpPut         OpKind = 1
	OpDeleteRange OpKind = 15
)

// Op is an operation of a batch. In an OpDeleteRange, Key is the start and Value is the limit.
type Op struct {
	Kind       OpKind
	Key, Value []byte
}

const (
	batchHeader = 12
	batchCount  = 8                   // offset of the number of operations
	longest     = math.MaxUint32 - 17 // bytes of a key or value; the engine checks the exact limits
)

// Put appends a put of value under key.
func (b *Batch) Put(key, value []byte) { b.add(OpPut, key, value) }

// Delete appends a delete of key, which need not exist.
func (b *Batch) Delete(key []byte) { b.add(OpDelete, key, nil) }

// DeleteRange appends a delete of all keys in the range, which must have a limit. Only a store that
// was created with the option range_tombstones=on accepts it; in any other store, Write fails with
// [ErrNotSupported].
func (b *Batch) DeleteRange(keys Range) {
	if keys.Limit == nil {
		b.fail(invalid("a range delete in a batch needs a limit"))
		return
	}
	b.add(OpDeleteRange, keys.Start, keys.Limit)
}

func (b *Batch) add(kind OpKind, key, value []byte) {
	if len(key) > longest || len(value) > longest {
		b.fail(invalid("a key of %d bytes or a value of %d bytes is too long", len(key), len(value)))
		return
	}
	if b.count == math.MaxUint32 {
		b.fail(invalid("a batch has at most %d operations", uint32(math.MaxUint32)))
		return
	}
	if len(b.bytes) == 0 {
		b.bytes = append(b.bytes, make([]byte, batchHeader)...)
	}
	b.count++
	b.bytes = append(b.bytes, byte(kind))
	b.bytes = appendSlice(b.bytes, key)
	if kind != OpDelete {
		b.bytes = appendSlice(b.bytes, value)
	}
}

// fail records the first problem, for which Write refuses the whole batch.
func (b *Batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func appendSlice(to, slice []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(slice))), slice...)
}

// Append appends the operations of other.
func (b *Batch) Append(other *Batch) {
	for op := range other.Ops() {
		b.add(op.Kind, op.Key, op.Value)
	}
	if other.err != nil {
		b.fail(other.err)
	}
}

// Len returns the number of operations.
func (b *Batch) Len() int { return int(b.count) }

// Size returns the bytes of the encoded batch, which are the bytes that a write appends to the WAL.
func (b *Batch) Size() int { return max(len(b.bytes), batchHeader) }

// Clear removes all operations, and keeps the memory for the next ones.
func (b *Batch) Clear() { *b = Batch{bytes: b.bytes[:0]} }

// Ops iterates over the operations in order. Their slices are parts of the batch: they must not be
// changed, and are valid until the batch changes.
func (b *Batch) Ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		if b.count == 0 {
			return
		}
		for rest := b.bytes[batchHeader:]; len(rest) > 0; {
			op := Op{Kind: OpKind(rest[0])}
			op.Key, rest = cutSlice(rest[1:])
			if op.Kind != OpDelete {
				op.Value, rest = cutSlice(rest)
			}
			if !yield(op) {
				return
			}
		}
	}
}

func cutSlice(from []byte) (slice, rest []byte) {
	length, head := binary.Uvarint(from)
	end := head + int(length)
	return from[head:end:end], from[end:]
}

// encoded returns the batch as the engine reads it.
func (b *Batch) encoded() ([]byte, error) {
	if b == nil {
		return nil, invalid("the batch is nil")
	}
	if b.err != nil {
		return nil, b.err
	}
	if len(b.bytes) == 0 {
		return make([]byte, batchHeader), nil
	}
	binary.LittleEndian.PutUint32(b.bytes[batchCount:], b.count)
	return b.bytes, nil
}
