package bbolt

import "go.etcd.io/bbolt/errors"

// The errors of package errors, under the names that older programs use.
var (
	ErrDatabaseNotOpen    = errors.ErrDatabaseNotOpen
	ErrInvalid            = errors.ErrInvalid
	ErrInvalidMapping     = errors.ErrInvalidMapping
	ErrVersionMismatch    = errors.ErrVersionMismatch
	ErrChecksum           = errors.ErrChecksum
	ErrTimeout            = errors.ErrTimeout
	ErrTxNotWritable      = errors.ErrTxNotWritable
	ErrTxClosed           = errors.ErrTxClosed
	ErrDatabaseReadOnly   = errors.ErrDatabaseReadOnly
	ErrFreePagesNotLoaded = errors.ErrFreePagesNotLoaded
	ErrBucketNotFound     = errors.ErrBucketNotFound
	ErrBucketExists       = errors.ErrBucketExists
	ErrBucketNameRequired = errors.ErrBucketNameRequired
	ErrKeyRequired        = errors.ErrKeyRequired
	ErrKeyTooLarge        = errors.ErrKeyTooLarge
	ErrValueTooLarge      = errors.ErrValueTooLarge
	ErrIncompatibleValue  = errors.ErrIncompatibleValue
)
