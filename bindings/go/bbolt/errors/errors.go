// Package errors has the errors of package bbolt.
//
// Source of the names and texts: go.etcd.io/bbolt 1.5, package errors.
package errors

import "errors"

// Errors of opening a database and of a closed one.
var (
	ErrDatabaseNotOpen    = errors.New("database not open")
	ErrInvalid            = errors.New("invalid database")
	ErrInvalidMapping     = errors.New("database isn't correctly mapped")
	ErrVersionMismatch    = errors.New("version mismatch")
	ErrChecksum           = errors.New("checksum error")
	ErrTimeout            = errors.New("timeout")
	ErrMaxSizeReached     = errors.New("database reached maximum size")
	ErrFreePagesNotLoaded = errors.New("free pages are not pre-loaded")
)

// Errors of transactions.
var (
	ErrTxNotWritable    = errors.New("tx not writable")
	ErrTxClosed         = errors.New("tx closed")
	ErrDatabaseReadOnly = errors.New("database is in read-only mode")
)

// Errors of buckets, keys and values.
var (
	ErrBucketNotFound     = errors.New("bucket not found")
	ErrBucketExists       = errors.New("bucket already exists")
	ErrBucketNameRequired = errors.New("bucket name required")
	ErrKeyRequired        = errors.New("key required")
	ErrKeyTooLarge        = errors.New("key too large")
	ErrValueTooLarge      = errors.New("value too large")
	ErrIncompatibleValue  = errors.New("incompatible value")
	ErrSameBuckets        = errors.New("the source and target are the same bucket")
	ErrDifferentDB        = errors.New("the source and target buckets are in different database files")
)
