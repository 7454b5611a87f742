package bbolt

import (
	"encoding/hex"
	"fmt"

	terrace "github.com/terrace-db/terrace/bindings/go"
)

// CheckOption changes a Check.
type CheckOption func(*checkConfig)

type checkConfig struct{ text KVStringer }

// KVStringer turns keys and values into texts for messages.
type KVStringer interface {
	KeyToString([]byte) string
	ValueToString([]byte) string
}

// WithKVStringer sets the form of keys in messages.
func WithKVStringer(text KVStringer) CheckOption {
	return func(c *checkConfig) { c.text = text }
}

// WithPageId has no effect: there are no pages.
func WithPageId(uint64) CheckOption { return func(*checkConfig) {} }

// HexKVStringer returns hexadecimal digits.
func HexKVStringer() KVStringer { return hexStringer{} }

type hexStringer struct{}

func (hexStringer) KeyToString(key []byte) string     { return hex.EncodeToString(key) }
func (hexStringer) ValueToString(value []byte) string { return hex.EncodeToString(value) }

// Check verifies the database as the transaction sees it without its own changes: every entry has a
// known form and belongs to a bucket that is nested in the root once, and the entries have the size
// that the meta says. The channel has an error for each contradiction, and is then closed. The
// transaction must not be used meanwhile. The engine verifies the checksums of what is read.
func (tx *Tx) Check(options ...CheckOption) <-chan error {
	config := checkConfig{text: HexKVStringer()}
	for _, option := range options {
		option(&config)
	}
	found := make(chan error)
	go func() {
		defer close(found)
		c := checker{config: config, found: found, parents: map[uint64]uint64{}, used: map[uint64]string{}}
		if err := c.check(tx.snapshot); err != nil {
			found <- err
		}
	}()
	return found
}

type checker struct {
	config  checkConfig
	found   chan<- error
	parents map[uint64]uint64 // of each bucket that an entry names
	used    map[uint64]string // a key of each bucket that has entries
	size    uint64
}

func (c *checker) check(snapshot *terrace.Snapshot) error {
	stored, err := readMeta(snapshot)
	if err != nil {
		return err
	}
	it, err := snapshot.NewIterator(nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	c.size = emptyArchive
	for it.Next() {
		if string(it.Key()) != string(metaKey) {
			c.entry(stored, it.Key(), it.Value())
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	for id, key := range c.used {
		if !c.reachable(id) {
			c.report("bucket %d, which has the key %s, is not nested in the root", id, key)
		}
	}
	if c.size != stored.size {
		c.report("the entries have %d bytes, and the meta says %d", c.size, stored.size)
	}
	return nil
}

func (c *checker) entry(stored meta, full, encoded []byte) {
	e, ok := decodeEntry(encoded)
	if !ok || len(full) <= entryHead || full[0] != tagEntry {
		c.report("the entry %x has an unknown form", full)
		return
	}
	c.size += recordBytes(full, e)
	id, key := bucketOf(full), c.config.text.KeyToString(full[entryHead:])
	c.used[id] = key
	if !e.isBucket {
		return
	}
	if _, twice := c.parents[e.child]; twice || e.child == rootID || e.child >= stored.nextBucket {
		c.report("the entry %s of bucket %d names bucket %d, which is nested elsewhere or does not exist", key, id, e.child)
	}
	c.parents[e.child] = id
}

// reachable returns whether the root is among the parents of a bucket.
func (c *checker) reachable(id uint64) bool {
	for steps := 0; steps <= len(c.parents); steps++ {
		if id == rootID {
			return true
		}
		parent, ok := c.parents[id]
		if !ok {
			return false
		}
		id = parent
	}
	return false // a cycle
}

func (c *checker) report(format string, arguments ...any) {
	c.found <- fmt.Errorf(format, arguments...)
}

// mustCheck panics if the database is not consistent.
func (db *DB) mustCheck() {
	err := db.View(func(tx *Tx) error {
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = err
			}
		}
		return first
	})
	if err != nil {
		panic(fmt.Errorf("bbolt: check of %s: %w", db.path, err))
	}
}
