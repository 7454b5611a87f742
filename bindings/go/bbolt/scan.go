package bbolt

import (
	"bytes"
	"sync"

	terrace "github.com/terrace-db/terrace/bindings/go"
)

// Iterators of a transaction that are open at the same time. Programs make many cursors and never
// close them.
const scansMax = 16

// A scan finds the neighbours of a key among the entries of a bucket, in the snapshot and the
// overlay of a transaction. It has no position of its own, so that the transaction may close its
// iterator between two steps; the iterator only makes the next step in the same direction cheap.
type scan struct {
	tx   *Tx
	keys terrace.Range // the keys of the bucket

	// Held during a step. In a read-only transaction another goroutine may make a cursor, and the
	// transaction then closes the iterator of this one. The lock guards the rest.
	mu    sync.Mutex
	base  *terrace.Iterator
	from  []byte // the iterator stands on the nearest key of the snapshot after, or before, this key
	back  bool   // the direction of the last step
	arena arena
}

func newScan(tx *Tx, bucket uint64) *scan {
	return &scan{tx: tx, keys: *terrace.Prefix(entryKey(bucket, nil))}
}

// next returns the first entry after a key, or at it.
func (s *scan) next(key []byte, inclusive bool) (found, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		base := s.baseNext(key, inclusive)
		over := s.overNext(key, inclusive)
		if over == nil || base && bytes.Compare(s.base.Key(), over.key) < 0 {
			return s.baseCopy(base)
		}
		if !over.deleted {
			return over.key, over.value
		}
		key, inclusive = over.key, false
	}
}

// prev returns the last entry before a key.
func (s *scan) prev(key []byte) (found, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		base := s.basePrev(key)
		over := s.overPrev(key)
		if over == nil || base && bytes.Compare(s.base.Key(), over.key) > 0 {
			return s.baseCopy(base)
		}
		if !over.deleted {
			return over.key, over.value
		}
		key = over.key
	}
}

func (s *scan) overNext(key []byte, inclusive bool) *change {
	if s.tx.overlay == nil {
		return nil
	}
	over := s.tx.overlay.from(key)
	if over != nil && !inclusive && bytes.Equal(over.key, key) {
		over = over.next[0]
	}
	if over != nil && s.keys.Limit != nil && bytes.Compare(over.key, s.keys.Limit) >= 0 {
		return nil
	}
	return over
}

func (s *scan) overPrev(key []byte) *change {
	if s.tx.overlay == nil {
		return nil
	}
	over := s.tx.overlay.before(key)
	if over != nil && bytes.Compare(over.key, s.keys.Start) < 0 {
		return nil
	}
	return over
}

// baseNext moves the iterator to the first key of the snapshot after key, or at it.
func (s *scan) baseNext(key []byte, inclusive bool) bool {
	it := s.iterator()
	if !s.back && it.Valid() && !inclusive {
		switch order := bytes.Compare(it.Key(), key); {
		case order == 0:
			s.from = append(s.from[:0], key...)
			return s.moved(it.Next())
		case order > 0 && bytes.Compare(s.from, key) <= 0:
			return true // it stands on the first key after s.from, and key is between the two
		}
	}
	s.back, s.from = false, append(s.from[:0], key...)
	ok := it.Seek(key)
	if ok && !inclusive && bytes.Equal(it.Key(), key) {
		ok = it.Next()
	}
	return s.moved(ok)
}

// basePrev moves the iterator to the last key of the snapshot before key.
func (s *scan) basePrev(key []byte) bool {
	it := s.iterator()
	if s.back && it.Valid() {
		switch order := bytes.Compare(it.Key(), key); {
		case order == 0:
			s.from = append(s.from[:0], key...)
			return s.moved(it.Prev())
		case order < 0 && bytes.Compare(key, s.from) <= 0:
			return true
		}
	}
	s.back, s.from = true, append(s.from[:0], key...)
	if !it.Seek(key) && it.Error() == nil {
		return s.moved(it.Last())
	}
	return s.moved(it.Prev())
}

// moved panics if the move failed because the store cannot be read: the functions of a cursor
// cannot return an error.
func (s *scan) moved(ok bool) bool {
	if err := s.base.Error(); err != nil {
		s.tx.unreadable(err)
	}
	return ok
}

// baseCopy returns copies of key and value of the iterator that are valid for the transaction.
func (s *scan) baseCopy(found bool) (key, value []byte) {
	if !found {
		return nil, nil
	}
	return s.arena.keep(s.base.Key()), s.arena.keep(s.base.Value())
}

// iterator returns the iterator. It makes one if the transaction has closed it.
func (s *scan) iterator() *terrace.Iterator {
	if s.base == nil {
		it, err := s.tx.snapshot.NewIterator(&s.keys, nil)
		if err != nil {
			s.tx.unreadable(err)
		}
		s.base, s.back = it, false
		s.tx.scans.opened(s)
	}
	return s.base
}

// close closes the iterator. The caller holds the lock of the scan.
func (s *scan) close() {
	s.base.Close()
	s.base = nil
}

// Scans are those of a transaction that have an iterator, the oldest first.
type scans struct {
	mu   sync.Mutex
	open []*scan
}

// opened records a scan with an iterator. If there are too many iterators, it closes the oldest of
// those that no other goroutine uses. The caller holds the lock of the new scan.
func (s *scans) opened(made *scan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := 0; len(s.open) >= scansMax && at < len(s.open); at++ {
		if oldest := s.open[at]; oldest.mu.TryLock() {
			oldest.close()
			oldest.mu.Unlock()
			s.open = append(s.open[:at], s.open[at+1:]...)
			break
		}
	}
	s.open = append(s.open, made)
}

// close closes all iterators. The transaction has ended.
func (s *scans) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, scan := range s.open {
		scan.close()
	}
	s.open = nil
}

// Sizes of the first and the largest block of an arena.
const (
	arenaMin = 256
	arenaMax = 8 << 10
)

// An arena has room for copies of keys and values. The garbage collector frees a block when nobody
// uses a copy in it.
type arena struct {
	free  []byte
	block int
}

// keep returns a copy that is valid as long as anybody uses it.
func (a *arena) keep(bytes []byte) []byte {
	if len(bytes) > len(a.free) {
		a.block = min(max(2*a.block, arenaMin), arenaMax)
		if len(bytes) > a.block/4 {
			return append([]byte{}, bytes...)
		}
		a.free = make([]byte, a.block)
	}
	kept := a.free[:len(bytes):len(bytes)]
	a.free = a.free[len(bytes):]
	copy(kept, bytes)
	return kept
}
