"""Terrace, an embedded key-value store on LevelDB's own files.

    import terracedb

    with terracedb.open("cities") as db:
        db[b"oslo"] = b"709 000"
        with db.batch(sync=True) as batch:      # both or neither, and durable
            batch[b"bergen"] = b"291 000"
            del batch[b"oslo"]
        for name, people in db.items(prefix=b"b"):
            print(name, people)

Keys and values are bytes (`bytearray` and `memoryview` are copied). Stores and snapshots are for any number of threads; iterators and batches for one at a time, and a second one
gets `RuntimeError`. What waits for storage lets other threads run.
"""

from ._errors import (
    ClosedError,
    CorruptError,
    Error,
    InUseError,
    InvalidError,
    MissingError,
    NoSpaceError,
    ReadOnlyError,
    StoppedError,
    StorageError,
    UnsupportedError,
)
from ._terracedb import Db, Pairs, Snapshot, Updates, WriteBatch, destroy, open, open_in_memory, repair

__all__ = [
    "ClosedError",
    "CorruptError",
    "Db",
    "Error",
    "InUseError",
    "InvalidError",
    "MissingError",
    "NoSpaceError",
    "Pairs",
    "ReadOnlyError",
    "Snapshot",
    "StoppedError",
    "StorageError",
    "UnsupportedError",
    "Updates",
    "WriteBatch",
    "destroy",
    "open",
    "open_in_memory",
    "repair",
]
