package bbolt

import (
	"bytes"

	terrace "github.com/terrace-db/terrace/bindings/go"
)

// Iterators of a transaction that are open at the same time. Programs make many cursors and never
// close them.
const scansMax = 16

// A scan finds the neighbours of a key among the entries of a bucket, in the snapshot and the
// overlay of a transaction. It has no position of its own, so that the transaction may close its
// iterator at any time; the iterator only makes the next step in the same direction cheap.
type scan struct {
	tx   *Tx
	keys terrace.Range // the keys of the bucket
	base *terrace.Iterator
	from []byte // the iterator stands on the nearest key of the snapshot after, or before, this key
	back bool   // the direction of the last step
}

func newScan(tx *Tx, bucket uint64) *scan {
	return &scan{tx: tx, keys: *terrace.Prefix(entryKey(bucket, nil))}
}

// next returns the first entry after a key, or at it.
func (s *scan) next(key []byte, inclusive bool) (found, value []byte) {
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
	return s.tx.keep(s.base.Key()), s.tx.keep(s.base.Value())
}

// iterator returns the iterator. It makes one if the transaction has closed it.
func (s *scan) iterator() *terrace.Iterator {
	if s.base == nil {
		it, err := s.tx.snapshot.NewIterator(&s.keys, nil)
		if err != nil {
			s.tx.unreadable(err)
		}
		s.base, s.back = it, false
		s.tx.opened(s)
	}
	return s.base
}

func (s *scan) close() {
	s.base.Close()
	s.base = nil
}
