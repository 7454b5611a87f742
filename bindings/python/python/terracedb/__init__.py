"""Terrace, an embedded LSM-tree key-value store on LevelDB's formats.

    import terracedb

    with terracedb.open("cities") as db:
        db[b"oslo"] = b"709 000"
        with db.batch(sync=True) as batch:      # atomic and durable
            batch[b"bergen"] = b"291 000"
            del batch[b"oslo"]
        for name, people in db.items(prefix=b"b"):
            print(name, people)

Keys and values are bytes (`bytearray` and `memoryview` are copied). Several threads may use a store or
a snapshot at the same time. Only one thread at a time may use an iterator or a batch; a second thread
gets `RuntimeError`. While a call waits for storage, other Python threads can run.
"""

from ._errors import (
    ClosedError,
    ConflictError,
    CorruptError,
    DeadlockError,
    Error,
    InUseError,
    InvalidError,
    LockTimeoutError,
    MissingError,
    NoSpaceError,
    ReadOnlyError,
    RetryableError,
    StoppedError,
    StorageError,
    UnsupportedError,
)
from ._mapping import ColumnFamily, Db, Snapshot, Transaction, open, open_in_memory
from ._terracedb import Backups, Pairs, Updates, WriteBatch, __version__, destroy, repair
from ._views import Items, Keys, Values

__all__ = [
    "Backups",
    "ClosedError",
    "ColumnFamily",
    "ConflictError",
    "CorruptError",
    "Db",
    "DeadlockError",
    "Error",
    "InUseError",
    "InvalidError",
    "Items",
    "Keys",
    "LockTimeoutError",
    "MissingError",
    "NoSpaceError",
    "Pairs",
    "ReadOnlyError",
    "RetryableError",
    "Snapshot",
    "StoppedError",
    "StorageError",
    "Transaction",
    "UnsupportedError",
    "Updates",
    "Values",
    "WriteBatch",
    "__version__",
    "destroy",
    "open",
    "open_in_memory",
    "repair",
]
