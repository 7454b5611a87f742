package terrace

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A full disk stops writes and not reads, until there is space again and the store is resumed.
func TestAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		if required("root") {
			t.Fatalf("mount of a small file system: %v", err)
		}
		t.Skipf("mount of a small file system: %v", err)
	}
	defer syscall.Unmount(disk, 0)
	other := filepath.Join(disk, "other")
	must(t, os.WriteFile(other, make([]byte, 16<<20), 0o666))

	db := got[*DB](t)(Open(filepath.Join(disk, "store"), nil))
	defer db.Close()
	value := make([]byte, 64<<10)
	var err error
	for count := 0; err == nil; count++ {
		if count == 1000 {
			t.Fatal("64 MB fit on a disk of 24 MB")
		}
		for at := range value {
			value[at] = byte(count * at >> 3) // not compressible to nothing
		}
		err = db.Put([]byte{byte(count >> 8), byte(count)}, value, nil)
	}
	wants(t, err, ErrNoSpace)
	wants(t, err, ErrIO)
	err = db.Put([]byte("refused"), nil, nil)
	wants(t, err, ErrNoSpace)
	var failed *Error
	if !errors.As(err, &failed) || got[bool](t)(db.Has([]byte("refused"), nil)) {
		t.Fatalf("%T %v, and the key exists", err, err)
	}
	if !got[bool](t)(db.Has([]byte{0, 0}, nil)) {
		t.Fatal("an acknowledged write is gone")
	}
	must(t, os.Remove(other))
	must(t, db.Resume())
	must(t, db.Put([]byte("accepted"), nil, Sync))

	// Close reports that the last writes are not durable.
	for err = nil; err == nil; {
		err = db.Put([]byte("again"), value, nil)
	}
	wants(t, db.Close(), ErrNoSpace)
	wants(t, db.Close(), ErrClosed)
}
