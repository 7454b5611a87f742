package bbolt

import (
	stderrors "errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	terrace "github.com/terrace-db/terrace/bindings/go"
	"go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

const (
	// Time between two attempts to lock a database that is open elsewhere.
	lockPause = 20 * time.Millisecond
	// Suffix of the directory in which Open unpacks an archive.
	importSuffix = ".import"
)

// Open opens the database in the directory path, and makes it with the mode (and the right to enter
// it for those who may read it) if it does not exist. A file that WriteTo wrote becomes a directory.
// It fails with ErrInvalid if path is something else, and with ErrTimeout if the database is open
// elsewhere for longer than the timeout.
func Open(path string, mode os.FileMode, options *Options) (*DB, error) {
	if options == nil {
		options = DefaultOptions
	}
	if err := options.refused(); err != nil {
		return nil, err
	}
	if path == "" {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	db := newDB(path, options)
	var err error
	if db.store, err = openStore(path, mode, options); err != nil {
		return nil, err
	}
	if err := db.prepare(); err != nil {
		db.store.Close()
		return nil, err
	}
	db.logger.Infof("opened database %s", path)
	return db, nil
}

// openStore opens the store at path, or makes it.
func openStore(path string, mode os.FileMode, options *Options) (*terrace.DB, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir() && options.ReadOnly:
		return openArchive(path)
	case err == nil && !info.IsDir() && info.Size() > 0:
		if err := unpack(path, mode); err != nil {
			return nil, err
		}
	case err == nil && !info.IsDir():
		// bbolt makes a database of an empty file.
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		fallthrough
	case stderrors.Is(err, fs.ErrNotExist) && !options.ReadOnly:
		if err := os.Mkdir(path, directoryMode(mode)); err != nil && !stderrors.Is(err, fs.ErrExist) {
			return nil, err
		}
	case err == nil:
		if err := checkDirectory(path, options.ReadOnly); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	return lockStore(path, options)
}

// lockStore opens the store, and waits while it is open elsewhere.
func lockStore(path string, options *Options) (*terrace.DB, error) {
	for begin := time.Now(); ; time.Sleep(lockPause) {
		open := terrace.Open
		if options.ReadOnly {
			open = terrace.OpenReadOnly
		}
		store, err := open(path, nil)
		if !stderrors.Is(err, terrace.ErrLocked) {
			return store, err
		}
		if options.Timeout > 0 && time.Since(begin) > options.Timeout {
			return nil, errors.ErrTimeout
		}
	}
}

// directoryMode adds the right to enter a directory to each right to read it.
func directoryMode(mode os.FileMode) os.FileMode { return mode | (mode&0o444)>>2 | 0o700 }

// checkDirectory refuses a directory of something else, in which Open would make a store.
func checkDirectory(path string, readOnly bool) error {
	if _, err := os.Stat(filepath.Join(path, "CURRENT")); err == nil {
		return nil
	}
	entries, err := os.ReadDir(path)
	switch {
	case err != nil:
		return err
	case readOnly:
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	for _, entry := range entries {
		if !isStoreFile(entry.Name()) {
			return errors.ErrInvalid
		}
	}
	return nil // an Open was interrupted, or is in progress
}

// isStoreFile returns whether a store may have a file of this name while it is made.
func isStoreFile(name string) bool {
	for _, pattern := range []string{"LOCK", "LOG*", "TERRACE*", "CURRENT*", "MANIFEST-*", "[0-9]*.*"} {
		if matched, _ := filepath.Match(pattern, name); matched {
			return true
		}
	}
	return false
}

// openArchive opens an archive for reading only: it unpacks it into memory.
func openArchive(path string) (*terrace.DB, error) {
	store, err := terrace.OpenInMemory(nil)
	if err != nil {
		return nil, err
	}
	if err := readArchiveFile(path, store); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// unpack replaces an archive by the directory of a store with its contents. The two exchange their
// names at once, so that a crash leaves either at path, complete.
func unpack(path string, mode os.FileMode) error {
	made := path + importSuffix
	if err := os.RemoveAll(made); err != nil { // of an interrupted attempt
		return err
	}
	if err := os.Mkdir(made, directoryMode(mode)); err != nil {
		return err
	}
	if err := fillStore(path, made); err != nil {
		os.RemoveAll(made)
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE); err != nil {
		os.RemoveAll(made)
		return fmt.Errorf("bbolt: exchange of %s and %s: %w", made, path, err)
	}
	if err := syncDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	return os.Remove(made)
}

// fillStore makes a store with the contents of an archive in the directory made.
func fillStore(archive, made string) error {
	store, err := terrace.Open(made, nil)
	if err != nil {
		return err
	}
	if err := readArchiveFile(archive, store); err != nil {
		store.Close()
		return err
	}
	return store.Close()
}

func readArchiveFile(path string, store *terrace.DB) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return readArchive(file, store)
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
