package terrace

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// Batch is a sequence of operations that [DB.Write] applies all or not at all. The zero value is an
// empty batch. A batch copies keys and values. Only one goroutine at a time may use it.
type Batch struct {
	// The encoding of LevelDB's WriteBatch (docs/format/batch.md): the sequence number, which is
	// not used here, the number of operations, then the operations. Empty before the first one.
	bytes []byte
	count uint32
	// The column families that the operations name, each once.
	families []*ColumnFamily
	err      error // the first operation that does not fit the format
}

// OpKind is the kind of an operation. The numbers are those of the encoding.
type OpKind byte

// The kinds of operations.
const (
	OpDelete      OpKind = 0
	OpPut         OpKind = 1
	OpDeleteRange OpKind = 15
)

// Op is an operation of a batch. In an OpDeleteRange, Key is the start and Value is the limit. A nil
// Family is the default one.
type Op struct {
	Kind       OpKind
	Key, Value []byte
	Family     *ColumnFamily
}

// The kinds of operations on column families, as the encoding has them.
const (
	opFamilyDelete      OpKind = 4
	opFamilyPut         OpKind = 5
	opFamilyDeleteRange OpKind = 14
)

// inFamily returns the kind of an operation on a column family.
func (k OpKind) inFamily() OpKind {
	switch k {
	case OpDelete:
		return opFamilyDelete
	case OpPut:
		return opFamilyPut
	}
	return opFamilyDeleteRange
}

// plain returns the kind without a family, and whether it had one.
func (k OpKind) plain() (OpKind, bool) {
	switch k {
	case opFamilyDelete:
		return OpDelete, true
	case opFamilyPut:
		return OpPut, true
	case opFamilyDeleteRange:
		return OpDeleteRange, true
	}
	return k, false
}

const (
	batchHeader = 12
	batchCount  = 8                   // offset of the number of operations
	longest     = math.MaxUint32 - 17 // bytes of a key or value; the engine checks the exact limits
)

// Put appends a put of value under key.
func (b *Batch) Put(key, value []byte) { b.add(OpPut, nil, key, value) }

// PutCF appends a put in a column family. A nil family is the default one.
func (b *Batch) PutCF(family *ColumnFamily, key, value []byte) { b.add(OpPut, family, key, value) }

// Delete appends a delete of key, which need not exist.
func (b *Batch) Delete(key []byte) { b.add(OpDelete, nil, key, nil) }

// DeleteCF appends a delete in a column family.
func (b *Batch) DeleteCF(family *ColumnFamily, key []byte) { b.add(OpDelete, family, key, nil) }

// DeleteRange appends a delete of all keys in the range, which must have a limit. Only a store that
// was created with the option range_tombstones=on accepts it; in any other store, Write fails with
// [ErrNotSupported].
func (b *Batch) DeleteRange(keys Range) { b.DeleteRangeCF(nil, keys) }

// DeleteRangeCF works like DeleteRange, in a column family.
func (b *Batch) DeleteRangeCF(family *ColumnFamily, keys Range) {
	if keys.Limit == nil {
		b.fail(invalid("a range delete in a batch needs a limit"))
		return
	}
	b.add(OpDeleteRange, family, keys.Start, keys.Limit)
}

func (b *Batch) add(kind OpKind, family *ColumnFamily, key, value []byte) {
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
	if family == nil {
		b.bytes = append(b.bytes, byte(kind))
	} else {
		b.bytes = append(b.bytes, byte(kind.inFamily()))
		b.bytes = binary.AppendUvarint(b.bytes, b.number(family))
	}
	b.bytes = appendSlice(b.bytes, key)
	if kind != OpDelete {
		b.bytes = appendSlice(b.bytes, value)
	}
}

// number returns the number of a family in the encoding: its place in families, from 1 on.
func (b *Batch) number(family *ColumnFamily) uint64 {
	at := slices.Index(b.families, family)
	if at < 0 {
		at = len(b.families)
		b.families = append(b.families, family)
	}
	return uint64(at) + 1
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
		b.add(op.Kind, op.Family, op.Key, op.Value)
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
			kind, hasFamily := OpKind(rest[0]).plain()
			op := Op{Kind: kind}
			rest = rest[1:]
			if hasFamily {
				number, length := binary.Uvarint(rest)
				op.Family, rest = b.families[number-1], rest[length:]
			}
			op.Key, rest = cutSlice(rest)
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
