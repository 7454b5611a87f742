package bbolt

import (
	"bytes"
	stderrors "errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	terrace "github.com/terrace-db/terrace/bindings/go"
)

// A commit on a full disk fails as a whole, and the next one after space was freed succeeds.
func TestAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("mount of a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, 0) })
	other := filepath.Join(disk, "other")
	must(t, os.WriteFile(other, make([]byte, 16<<20), 0o666))

	db := open(t, filepath.Join(disk, "db"))
	must(t, db.Update(func(tx *Tx) error { create(t, tx.root, "b"); return nil }))
	random := rand.NewChaCha8([32]byte{1})
	value := make([]byte, 64<<10)
	put := func(at int) error {
		random.Read(value) // not compressible
		return db.Update(func(tx *Tx) error { return tx.Bucket([]byte("b")).Put([]byte{byte(at >> 8), byte(at)}, value) })
	}
	at := 0
	for ; at < 1000; at++ {
		if err := put(at); err != nil {
			if !stderrors.Is(err, terrace.ErrNoSpace) {
				t.Fatal(err)
			}
			break
		}
	}
	if err := put(at); !stderrors.Is(err, terrace.ErrNoSpace) {
		t.Fatalf("on a full disk: %v", err)
	}
	must(t, os.Remove(other))
	must(t, put(at))
	must(t, db.View(func(tx *Tx) error {
		if !bytes.Equal(tx.Bucket([]byte("b")).Get([]byte{byte(at >> 8), byte(at)}), value) {
			t.Fatal("the pair of the last commit differs")
		}
		return nil
	}))
	db.mustCheck()
}
