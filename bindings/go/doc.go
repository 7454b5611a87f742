// Package terrace is an embedded key-value store: an LSM tree that reads and writes LevelDB's
// files. It calls the library libterrace through cgo.
//
// A store maps keys to values in bytewise order of the keys; both are any bytes. A write survives
// the end of the process. With [Sync] it also survives a power cut, together with all earlier
// writes; [DB.WaitDurable] does this once for many writes.
//
// A [ColumnFamily] is a further key space of a store. A [Transaction] reads one moment of the store,
// and its writes become visible together, unless another write has changed what it depends on.
//
// The methods of [DB], [ColumnFamily], [Snapshot] and [Transaction] may be called from several
// goroutines at the same time. An [Iterator] or a [Batch] belongs to one goroutine at a time. Close
// iterators, release snapshots and end transactions, which otherwise live, with the files that they
// read, until the store is closed: the package has no finalizers. After a close, every method returns
// [ErrClosed].
//
// # Build
//
// The package finds the shared library with pkg-config (module terrace), as `make install` of the
// repository installs it. The build tag terrace_static links the static library (module
// terrace-static), and the program then runs without libterrace.
package terrace
