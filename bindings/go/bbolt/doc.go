// Package bbolt has the interface of go.etcd.io/bbolt on a Terrace store: a program that uses bbolt
// can be built with this package instead, by a line in its go.mod.
//
// Source of the interface: go.etcd.io/bbolt 1.5. The differences are:
//
//   - A database is a directory. Open also accepts a file that Tx.WriteTo or Tx.CopyFile wrote, and
//     turns it into a directory. It does not read bbolt's own files.
//   - There are no pages and no free list. Options about them have no effect, and statistics of them
//     are 0. OpenFile and Mlock are refused.
//   - A database has no limit of size, and its writers do not wait for readers.
//   - A commit survives a power cut when it returns, as in bbolt. With DB.NoSync it survives the end
//     of the process, and DB.Sync is the barrier after which all commits so far survive a power cut,
//     too. A power cut never leaves a later commit without an earlier one.
//   - A commit on a full disk fails, as in bbolt, and the first one after space was freed succeeds.
//   - Where a read fails because the store is damaged, it panics, as bbolt does for a damaged page.
//   - The changes of a transaction are in memory until its commit.
package bbolt
