package bbolt

import (
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	terrace "github.com/terrace-db/terrace/bindings/go"
	"go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Time between two attempts to lock a database that is open elsewhere.
const lockPause = 20 * time.Millisecond

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
		if err := unpack(path, mode, options.Timeout); err == errReplaced {
			return openStore(path, mode, options)
		} else if err != nil {
			return nil, err
		}
	case err == nil && !info.IsDir():
		// bbolt makes a database of an empty file. Another Open may have done so, and EISDIR is then
		// the error.
		if err := unix.Unlink(path); err != nil && err != unix.EISDIR && err != unix.ENOENT {
			return nil, &fs.PathError{Op: "unlink", Path: path, Err: err}
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
