package bbolt

import (
	stderrors "errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	terrace "github.com/terrace-db/terrace/bindings/go"
	"go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Suffix of the directory in which Open unpacks an archive; a number follows.
const importSuffix = ".import-"

// openArchive opens an archive for reading only: it unpacks it into memory.
func openArchive(path string) (*terrace.DB, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	store, err := terrace.OpenInMemory(nil)
	if err != nil {
		return nil, err
	}
	if err := readArchive(file, store); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// errReplaced means that path does not name the archive any more.
var errReplaced = stderrors.New("bbolt: the archive was replaced while it was opened")

// unpack replaces an archive by the directory of a store with its contents. The two exchange their
// names at once, so that a crash leaves either at path, complete. It holds a lock on the archive: of
// several Opens at the same time one unpacks, and the others fail with errReplaced after it.
func unpack(path string, mode os.FileMode, timeout time.Duration) error {
	archive, err := os.Open(path)
	if err != nil {
		return err
	}
	defer archive.Close() // ends the lock
	if err := lockArchive(archive, timeout); err != nil {
		return err
	}
	if !names(path, archive) {
		return errReplaced
	}
	if err := removeImports(path); err != nil {
		return err
	}
	place, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+importSuffix)
	if err != nil {
		return err
	}
	made := filepath.Join(place, "store")
	if err := os.Mkdir(made, directoryMode(mode)); err != nil {
		os.RemoveAll(place)
		return err
	}
	if err := fillStore(archive, made); err != nil {
		os.RemoveAll(place)
		return err
	}
	if err := exchange(made, path); err != nil {
		os.RemoveAll(place)
		return err
	}
	if !names(made, archive) { // a program that does not lock has put another file at path
		if err := exchange(made, path); err != nil {
			return err
		}
		os.RemoveAll(place)
		return errReplaced
	}
	if err := syncDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	return os.RemoveAll(place)
}

// lockArchive locks an archive, and waits while another Open unpacks it.
func lockArchive(archive *os.File, timeout time.Duration) error {
	for begin := time.Now(); ; time.Sleep(lockPause) {
		switch err := unix.Flock(int(archive.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return &fs.PathError{Op: "lock", Path: archive.Name(), Err: err}
		case timeout > 0 && time.Since(begin) > timeout:
			return errors.ErrTimeout
		}
	}
}

// names returns whether path is the name of an open file that is no directory.
func names(path string, file *os.File) bool {
	found, err := os.Stat(path)
	if err != nil {
		return false
	}
	wanted, err := file.Stat()
	return err == nil && !wanted.IsDir() && os.SameFile(found, wanted)
}

// removeImports removes what interrupted attempts to unpack an archive have left.
func removeImports(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), filepath.Base(path)+importSuffix)
		if _, err := strconv.ParseUint(number, 10, 64); !ok || err != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(path), entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("bbolt: exchange of %s and %s: %w", a, b, err)
	}
	return nil
}

// fillStore makes a store with the contents of an archive in the directory made.
func fillStore(archive io.Reader, made string) error {
	store, err := terrace.Open(made, nil)
	if err != nil {
		return err
	}
	if err := readArchive(archive, store); err != nil {
		store.Close()
		return err
	}
	return store.Close()
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
