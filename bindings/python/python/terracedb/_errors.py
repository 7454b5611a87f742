"""What can go wrong. The text says what, and where; it is for people and may change."""


class Error(Exception):
    """A failed operation: one of the classes below, or what none of them names."""


class CorruptError(Error):
    """Bytes on storage are not what was written. Restore from a copy; trying again will not help."""


class StorageError(Error, OSError):
    """The operating system refused."""


class NoSpaceError(StorageError):
    """No space is left. Free some, then call `resume`, or reopen the store."""


class InUseError(Error):
    """Another process, or another handle of this one, has the store open."""


class MissingError(Error):
    """A store, or a file that a store names, is not there."""


class UnsupportedError(Error):
    """The store needs something that this version, or this way of opening it, does not offer."""


class InvalidError(Error, ValueError):
    """An argument or an option cannot be. Nothing was done."""


class ReadOnlyError(Error):
    """The store is open for reading only."""


class ClosedError(Error, ValueError):
    """The store was closed, or the snapshot released."""


class StoppedError(Error):
    """An earlier write or sync failed. Reads go on; to write, close and reopen."""
