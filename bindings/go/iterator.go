package terrace

// #cgo noescape go_iter_read
// #cgo nocallback go_iter_read
// #cgo noescape go_iter_step
// #cgo nocallback go_iter_step
// #include "shim.h"
import "C"

import "iter"

// Iterator moves over the pairs of a key range in both directions. It stands before the first pair,
// on a pair, or after the last one. Only one goroutine at a time may use an iterator; but the store
// may be closed at any time, and the iterator then fails with [ErrClosed].
//
// An iterator copies many pairs per call into C, first few, then more: a scan costs about as much
// as in C.
type Iterator struct {
	db     *DB // nil after Close
	handle *C.leveldb_iterator_t
	place  place
	chunk  chunk
	// Whether the C iterator stands on the pair that follows the chunk. If not, the chunk has the
	// last pair of its direction.
	more bool
	// Whether the iterator reads no pair in advance. The C iterator then stands on the pair.
	single bool
	err    error
}

// The place of an iterator.
type place byte

const (
	beforeFirst place = iota
	onPair
	afterLast
)

// Sizes of the parts of a scan in bytes: the first, the largest, and the growth.
const (
	firstChunk   = 1 << 10
	largestChunk = 64 << 10
	chunkGrowth  = 4
)

// First moves to the first pair, and returns whether there is one.
func (it *Iterator) First() bool { return it.jump(C.go_first, nil, false) }

// Last moves to the last pair, and returns whether there is one.
func (it *Iterator) Last() bool { return it.jump(C.go_last, nil, true) }

// Seek moves to the first pair whose key is key or follows it, and returns whether there is one.
func (it *Iterator) Seek(key []byte) bool { return it.jump(C.go_seek, key, false) }

// Next moves to the next pair, from before the first pair to the first. It returns false after the
// last pair and after an error, which [Iterator.Error] returns.
func (it *Iterator) Next() bool { return it.step(false) }

// Prev moves to the previous pair, from after the last pair to the last. It returns false before
// the first pair and after an error, which [Iterator.Error] returns.
func (it *Iterator) Prev() bool { return it.step(true) }

// Valid returns whether the iterator stands on a pair.
func (it *Iterator) Valid() bool { return it.place == onPair }

// Key returns the key of the pair, or nil if the iterator stands on none. The bytes must not be
// changed, and are valid until the next move.
func (it *Iterator) Key() []byte {
	if it.place != onPair {
		return nil
	}
	return it.chunk.key
}

// Value returns the value of the pair, or nil if the iterator stands on none. The bytes must not be
// changed, and are valid until the next move.
func (it *Iterator) Value() []byte {
	if it.place != onPair {
		return nil
	}
	return it.chunk.value
}

// Error returns the error of the last move; nil at the end of the range. After an error Next and
// Prev do nothing until First, Last or Seek.
func (it *Iterator) Error() error { return it.err }

// All iterates over all pairs from the first to the last. The bytes are valid until the next step.
// Call [Iterator.Error] afterwards.
func (it *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok && yield(it.chunk.key, it.chunk.value); ok = it.Next() {
		}
	}
}

// Backward iterates over all pairs from the last to the first, as All does.
func (it *Iterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.Last(); ok && yield(it.chunk.key, it.chunk.value); ok = it.Prev() {
		}
	}
}

// Close ends the iterator and frees its memory. Error still returns the error of the last move. A
// second Close does nothing.
func (it *Iterator) Close() {
	db := it.db
	if db == nil {
		return
	}
	it.db, it.place = nil, beforeFirst
	it.chunk.clear()
	if db.gate.enter() != nil {
		return // closing the store has closed the iterator
	}
	defer db.gate.leave()
	if db.release(it) {
		it.destroy()
	}
}

func (it *Iterator) destroy() { C.leveldb_iter_destroy(it.handle) }

// usable returns whether the iterator can move: it has not failed, and it and its store are open.
func (it *Iterator) usable() bool {
	if it.err == nil && (it.db == nil || !it.db.gate.open.Load()) {
		it.fail(ErrClosed)
	}
	return it.err == nil
}

func (it *Iterator) fail(err error) {
	it.place, it.more, it.err = beforeFirst, false, err
	it.chunk.clear()
}

// step moves by one pair: within the chunk, or to the next chunk in this direction.
func (it *Iterator) step(backward bool) bool {
	if !it.usable() {
		return false
	}
	start, end := beforeFirst, afterLast
	if backward {
		start, end = end, start
	}
	switch {
	case it.place == end:
		return false
	case it.place == start && backward:
		return it.Last()
	case it.place == start:
		return it.First()
	case it.single:
		it.chunk.backward = backward
		return it.fill(C.go_advance, nil, firstChunk)
	case it.chunk.backward == backward && it.chunk.advance():
		return true
	case it.chunk.backward == backward && it.more:
		return it.fill(C.go_stay, nil, min(it.chunk.size*chunkGrowth, largestChunk))
	case it.chunk.backward == backward:
		it.place = end
		return false
	case it.chunk.retreat():
		return true
	}
	key := it.chunk.key // the first of the chunk; C has read it before it overwrites the chunk
	it.chunk.backward = backward
	return it.fill(C.go_leave, key, firstChunk)
}

// jump moves to a place that does not depend on the present one.
func (it *Iterator) jump(move C.int, key []byte, backward bool) bool {
	it.err = nil
	if !it.usable() {
		return false
	}
	it.chunk.backward = backward
	return it.fill(move, key, firstChunk)
}

// fill moves the C iterator, copies the pairs from there in the direction of the chunk, and moves
// to the first of them.
func (it *Iterator) fill(move C.int, key []byte, size int) bool {
	if err := it.db.gate.enter(); err != nil {
		it.fail(err)
		return false
	}
	defer it.db.gate.leave()
	for {
		buffer := it.chunk.reserve(size)
		read := it.read(move, key, buffer)
		it.more = read.more != 0
		if read.pairs > 0 {
			it.place = onPair
			it.chunk.begin(int(read.pairs))
			return true
		}
		switch err := failure(read.error); {
		case err != nil:
			it.fail(err)
			return false
		case !it.more && it.chunk.backward:
			it.place = beforeFirst
			return false
		case !it.more:
			it.place = afterLast
			return false
		}
		move, size = C.go_stay, int(read.bytes) // a pair that is larger than the buffer
	}
}

// read moves the C iterator, and copies pairs into the buffer.
func (it *Iterator) read(move C.int, key, buffer []byte) C.go_chunk {
	if it.single {
		return C.go_iter_step(it.handle, move, bytesC(key), lengthC(key), flag(it.chunk.backward),
			bytesC(buffer), lengthC(buffer))
	}
	return C.go_iter_read(it.handle, move, bytesC(key), lengthC(key), flag(it.chunk.backward),
		bytesC(buffer), lengthC(buffer))
}
