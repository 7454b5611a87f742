package bbolt

import (
	"fmt"
	"os"
	"time"
)

// FreelistType is accepted and has no effect.
type FreelistType string

// Types of free lists in bbolt.
const (
	FreelistArrayType = FreelistType("array")
	FreelistMapType   = FreelistType("hashmap")
)

// Options for opening a database. A field that is not described has no effect, because it is about
// bbolt's pages.
type Options struct {
	// Timeout limits the time for which Open waits while the database is open elsewhere. 0 waits
	// without a limit.
	Timeout        time.Duration
	NoGrowSync     bool
	NoFreelistSync bool

	PreLoadFreelist bool
	FreelistType    FreelistType

	// ReadOnly changes nothing on disk. Several processes may have the database open so.
	ReadOnly bool

	MmapFlags       int
	InitialMmapSize int
	PageSize        int

	// MaxSize is the first value of DB.MaxSize.
	MaxSize int

	// NoSync is the first value of DB.NoSync.
	NoSync bool

	// OpenFile must be nil: a database is not a file.
	OpenFile func(string, int, os.FileMode) (*os.File, error)

	// Mlock must be false: a database is not mapped into memory.
	Mlock bool

	// Logger receives messages. Nil discards them.
	Logger Logger

	// NoStatistics leaves the statistics of DB.Stats empty.
	NoStatistics bool
}

// DefaultOptions are the options of an Open without options.
var DefaultOptions = &Options{FreelistType: FreelistArrayType}

// String describes the options.
func (o *Options) String() string {
	if o == nil {
		return "{}"
	}
	return fmt.Sprintf("{Timeout: %s, ReadOnly: %t, MaxSize: %d, NoSync: %t, NoStatistics: %t}",
		o.Timeout, o.ReadOnly, o.MaxSize, o.NoSync, o.NoStatistics)
}

// refused returns an error if the options need what this package does not have.
func (o *Options) refused() error {
	switch {
	case o.OpenFile != nil:
		return fmt.Errorf("bbolt: option OpenFile is not supported: a database is a directory")
	case o.Mlock:
		return fmt.Errorf("bbolt: option Mlock is not supported: a database is not mapped into memory")
	}
	return nil
}
