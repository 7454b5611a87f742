package bbolt

import (
	"bytes"
	"math/rand/v2"
)

const overlayLevels = 20

// An overlay has the writes of a transaction that is not committed, in key order: a skip list.
type overlay struct {
	head change // has no key
}

// A change is a new value of a key, or its delete.
type change struct {
	key, value []byte
	deleted    bool
	next       []*change // the next change of each level
}

func newOverlay() *overlay { return &overlay{change{next: make([]*change, overlayLevels)}} }

// path returns the last change before key in each level.
func (o *overlay) path(key []byte) (path [overlayLevels]*change) {
	at := &o.head
	for level := overlayLevels - 1; level >= 0; level-- {
		for at.next[level] != nil && bytes.Compare(at.next[level].key, key) < 0 {
			at = at.next[level]
		}
		path[level] = at
	}
	return path
}

// set replaces the change of key. The overlay keeps key and value.
func (o *overlay) set(key, value []byte, deleted bool) {
	path := o.path(key)
	if found := path[0].next[0]; found != nil && bytes.Equal(found.key, key) {
		found.value, found.deleted = value, deleted
		return
	}
	levels := 1
	for levels < overlayLevels && rand.IntN(4) == 0 {
		levels++
	}
	made := &change{key, value, deleted, make([]*change, levels)}
	for level := range levels {
		made.next[level], path[level].next[level] = path[level].next[level], made
	}
}

// from returns the first change at or after key; nil if there is none.
func (o *overlay) from(key []byte) *change { return o.path(key)[0].next[0] }

// get returns the change of key; nil if there is none.
func (o *overlay) get(key []byte) *change {
	if found := o.from(key); found != nil && bytes.Equal(found.key, key) {
		return found
	}
	return nil
}

// before returns the last change before key; nil if there is none.
func (o *overlay) before(key []byte) *change {
	if found := o.path(key)[0]; found != &o.head {
		return found
	}
	return nil
}

// all calls visit for each change in order, until it fails.
func (o *overlay) all(visit func(*change) error) error {
	for at := o.head.next[0]; at != nil; at = at.next[0] {
		if err := visit(at); err != nil {
			return err
		}
	}
	return nil
}
