"""The exceptions. Their texts name the failed operation and its object. The texts are for people and may change."""


class Error(Exception):
    """A failed operation. The classes below cover the common failures."""


class CorruptError(Error):
    """Bytes on storage differ from those that were written. Restore from a copy, or use `repair`."""


class StorageError(Error, OSError):
    """The operating system reported an error."""


class NoSpaceError(StorageError):
    """The disk is full. Free space, then call `resume` or reopen the store."""


class InUseError(Error):
    """The store is already open, in another process or in this one."""


class MissingError(Error):
    """A store, a file that a store refers to, or a column family does not exist."""


class UnsupportedError(Error):
    """The store needs a feature that this version, or this way of opening it, does not have."""


class InvalidError(Error, ValueError):
    """An argument or an option is invalid. Nothing was done."""


class ReadOnlyError(Error):
    """The store was opened read-only."""


class ClosedError(Error, ValueError):
    """The store was closed, or the snapshot was released."""


class RetryableError(Error):
    """A transaction failed only because of other transactions or writes. Run it again, as `Db.transact` does."""


class ConflictError(RetryableError):
    """Another write changed what the transaction depends on. Nothing was written."""


class LockTimeoutError(RetryableError):
    """Another transaction did not release a lock in time."""


class DeadlockError(RetryableError):
    """The transaction would wait for a lock of a transaction that waits for it. Roll it back."""


class StoppedError(Error):
    """An earlier write or sync failed. Reads continue; close and reopen the store to write."""
