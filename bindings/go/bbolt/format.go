package bbolt

import (
	"bytes"
	"encoding/binary"
)

// The form of a database in a Terrace store. Integers are big-endian and have 8 bytes.
//
//	key                        value
//	00                         magic, transaction id, next bucket id, bytes of an archive
//	01 bucket id, user key     00 value                       a pair
//	01 bucket id, user key     01 child id, sequence          a nested bucket
//
// The root bucket has the id 0. An id is never used again. So a bucket is a range of keys, and
// moving it changes one entry.
const (
	magic     = "bboltTr1"
	tagMeta   = 0
	tagEntry  = 1
	tagPair   = 0
	tagBucket = 1
	entryHead = 9 // bytes of the key of an entry before the user key
	rootID    = 0
)

var metaKey = []byte{tagMeta}

// A meta counts what a database has had and has.
type meta struct {
	txid       uint64 // the last committed transaction
	nextBucket uint64
	size       uint64 // bytes that Tx.WriteTo writes
}

// newMeta describes an empty database. The first writable transaction has the number 2, as in
// bbolt.
func newMeta() meta { return meta{txid: 1, nextBucket: rootID + 1, size: emptyArchive} }

func (m meta) encode() []byte {
	encoded := binary.BigEndian.AppendUint64([]byte(magic), m.txid)
	encoded = binary.BigEndian.AppendUint64(encoded, m.nextBucket)
	return binary.BigEndian.AppendUint64(encoded, m.size)
}

func decodeMeta(encoded []byte) (m meta, ok bool) {
	numbers, ok := bytes.CutPrefix(encoded, []byte(magic))
	if !ok || len(numbers) != 24 {
		return m, false
	}
	m.txid = binary.BigEndian.Uint64(numbers)
	m.nextBucket = binary.BigEndian.Uint64(numbers[8:])
	m.size = binary.BigEndian.Uint64(numbers[16:])
	return m, true
}

// entryKey returns the store's key for a user key in a bucket.
func entryKey(bucket uint64, key []byte) []byte {
	full := make([]byte, 0, entryHead+len(key))
	full = binary.BigEndian.AppendUint64(append(full, tagEntry), bucket)
	return append(full, key...)
}

// An entry is a pair or a nested bucket.
type entry struct {
	isBucket        bool
	child, sequence uint64
	value           []byte // of a pair; never nil
}

func (e entry) encode() []byte {
	if !e.isBucket {
		return append(append(make([]byte, 0, 1+len(e.value)), tagPair), e.value...)
	}
	encoded := binary.BigEndian.AppendUint64([]byte{tagBucket}, e.child)
	return binary.BigEndian.AppendUint64(encoded, e.sequence)
}

func decodeEntry(encoded []byte) (e entry, ok bool) {
	switch {
	case len(encoded) > 0 && encoded[0] == tagPair:
		return entry{value: encoded[1:len(encoded):len(encoded)]}, true
	case len(encoded) == 17 && encoded[0] == tagBucket:
		child, sequence := binary.BigEndian.Uint64(encoded[1:]), binary.BigEndian.Uint64(encoded[9:])
		return entry{isBucket: true, child: child, sequence: sequence}, true
	}
	return e, false
}

// bucketOf returns the bucket id in the key of an entry.
func bucketOf(full []byte) uint64 { return binary.BigEndian.Uint64(full[1:]) }
