package bbolt

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// Goroutines with cursors of their own may share a read-only transaction. There are more cursors
// than iterators, so that the transaction closes iterators meanwhile.
func TestGoroutinesShareAReadOnlyTransaction(t *testing.T) {
	const goroutines, keys = 8, 300
	db := open(t, filepath.Join(t.TempDir(), "db"))
	must(t, db.Update(func(tx *Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		must(t, err)
		for at := range keys {
			must(t, b.Put(fmt.Appendf(nil, "%04d", at), bytes.Repeat([]byte{byte(at)}, at)))
		}
		return nil
	}))
	tx, err := db.Begin(false)
	must(t, err)
	defer tx.Rollback()
	b := tx.Bucket([]byte("b"))
	var all sync.WaitGroup
	for range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			var cursors [4]*Cursor
			for at := range cursors {
				cursors[at] = b.Cursor()
				cursors[at].First()
			}
			for at := range keys - 1 {
				c := cursors[at%len(cursors)]
				previous, _ := c.Seek(fmt.Appendf(nil, "%04d", at))
				key, value := c.Next()
				if string(previous) != fmt.Sprintf("%04d", at) || string(key) != fmt.Sprintf("%04d", at+1) ||
					!bytes.Equal(value, bytes.Repeat([]byte{byte(at + 1)}, at+1)) {
					t.Errorf("after %d: %s, then %s with %d bytes", at, previous, key, len(value))
					return
				}
			}
		}()
	}
	all.Wait()
}
