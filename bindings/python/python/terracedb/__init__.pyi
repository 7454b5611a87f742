import os
import pathlib
from types import TracebackType
from typing import (
    Any,
    Callable,
    Generic,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Literal,
    Mapping,
    MutableMapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
    ValuesView,
    overload,
)

from ._errors import (
    ClosedError as ClosedError,
    ConflictError as ConflictError,
    CorruptError as CorruptError,
    DeadlockError as DeadlockError,
    Error as Error,
    InUseError as InUseError,
    InvalidError as InvalidError,
    LockTimeoutError as LockTimeoutError,
    MissingError as MissingError,
    NoSpaceError as NoSpaceError,
    ReadOnlyError as ReadOnlyError,
    RetryableError as RetryableError,
    StoppedError as StoppedError,
    StorageError as StorageError,
    UnsupportedError as UnsupportedError,
)

_Bytes = Union[bytes, bytearray, memoryview]
_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_T = TypeVar("_T")
_Item = TypeVar("_Item", covariant=True)

__version__: str

class Pairs(Generic[_Item]):
    """An iterator in ascending or descending key order. It sees the store as it was when the iterator was created."""

    def __iter__(self) -> Iterator[_Item]: ...
    def __next__(self) -> _Item: ...

class Updates:
    """An iterator over the write history, oldest write first. Yields pairs of a sequence number and a batch. To continue
    later, pass the last sequence number to `updates_since`."""

    def __iter__(self) -> Updates: ...
    def __next__(self) -> tuple[int, WriteBatch]: ...

class Keys(KeysView[bytes]):
    """A view of keys, a set in key order. Each use reads the present contents. `len` reads every key, and so does `list`."""

    def __iter__(self) -> Pairs[bytes]: ...
    def __reversed__(self) -> Pairs[bytes]: ...

class Values(ValuesView[bytes]):
    """A view of the values, in the order of their keys. `in` reads all of them."""

    def __iter__(self) -> Pairs[bytes]: ...
    def __reversed__(self) -> Pairs[bytes]: ...

class Items(ItemsView[bytes, bytes]):
    """A view of keys with their values, a set in key order."""

    def __iter__(self) -> Pairs[tuple[bytes, bytes]]: ...
    def __reversed__(self) -> Pairs[tuple[bytes, bytes]]: ...

class _Reads(Mapping[bytes, bytes]):
    @overload
    def get(self, key: _Bytes) -> Optional[bytes]:
        """Returns the value of `key`, or `default` if the key does not exist."""
    @overload
    def get(self, key: _Bytes, default: _T) -> Union[bytes, _T]: ...
    def __getitem__(self, key: _Bytes) -> bytes: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Pairs[bytes]:
        """Iterates over all keys."""
    def __reversed__(self) -> Pairs[bytes]: ...
    def __len__(self) -> int:
        """Counts the keys, which reads all of them."""
    def __bool__(self) -> bool:
        """Returns whether there is a key. Reads one key only."""
    def __eq__(self, other: object) -> bool:
        """Compares all pairs with those of another mapping, until two differ."""
    def keys(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Keys:
        """Returns a view of the keys from `start` (included) to `stop` (excluded) that start with `prefix`."""
    def values(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Values:
        """Returns a view of the values of the keys that `keys` would return for these arguments."""
    def items(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Items:
        """Returns a view of the keys that `keys` would return for these arguments, with their values."""

class _Writes(_Reads, MutableMapping[bytes, bytes]):
    def __setitem__(self, key: _Bytes, value: _Bytes) -> None: ...
    def __delitem__(self, key: _Bytes) -> None:
        """Deletes `key`. Raises `KeyError` if it does not exist, which costs a read. `delete` does not read."""
    def update(  # type: ignore[override]
        self, other: Union[Mapping[bytes, bytes], Iterable[tuple[_Bytes, _Bytes]]] = ()
    ) -> None:
        """Puts all pairs of a mapping, or of an iterable of pairs, atomically. They must fit in memory."""
    def clear(self) -> None:
        """Deletes every key that the store has at the time of the call. Large stores are not cleared atomically."""

class _Space(_Writes):
    def get_many(self, keys: Iterable[_Bytes]) -> list[Optional[bytes]]:
        """Returns the values of `keys`, all from one state of the store. Reads of storage run concurrently."""
    def put(self, key: _Bytes, value: _Bytes, *, sync: bool = False) -> None:
        """Sets `key` to `value`. The write survives the end of the process, and with `sync` also a power cut."""
    def delete(self, key: _Bytes, *, sync: bool = False) -> None:
        """Deletes `key`, which need not exist."""
    def delete_range(self, start: _Bytes, stop: _Bytes, *, sync: bool = False) -> None:
        """Deletes every key from `start` (included) to `stop` (excluded).

        In a store created with `range_tombstones=True` this is one write. Otherwise each key is deleted separately. If the
        deletes fit `write_buffer_size`, they are one atomic batch; else several batches, which are not atomic together."""
    def write(self, batch: WriteBatch, *, sync: bool = False, log: bool = True) -> int:
        """Applies `batch` atomically. Returns the sequence number of its last write, for `wait_durable`.

        With `log=False` the batch is not written to the WAL (write-ahead log). That is faster, but if the process ends
        before `wait_durable` or `close` returns, the batch and all later writes without `sync` are lost.
        """
    def ingest(self, paths: Sequence[_Path]) -> int:
        """Adds the contents of SSTables, atomically and durably. Returns the number of their puts and deletes."""
    def export(
        self,
        folder: _Path,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
    ) -> list[pathlib.Path]:
        """Writes the pairs that `items` would return into SSTables in an existing directory. Returns their paths."""
    def compact(self, start: Optional[_Bytes] = None, stop: Optional[_Bytes] = None) -> None:
        """Compacts the keys from `start` to `stop`, both included. This drops deleted data."""
    def approximate_size(self, start: _Bytes, stop: _Bytes) -> int:
        """Estimates the bytes that the keys from `start` to `stop` use in SSTables. Memtables are not included."""

class Db(_Space):
    """An ordered mapping from bytes to bytes on storage. Created by `open` and `open_in_memory`.

    `popitem` removes the first key. `pop`, `popitem` and `setdefault` are a read and a write: a write of another thread
    may come between them.

    The end of a `with` block closes the store. A store that is never closed loses no writes, unless the power fails before
    the kernel has written them to the disk.
    """

    @property
    def closed(self) -> bool: ...
    @property
    def last_sequence(self) -> int:
        """The sequence number of the newest write, or 0 before the first write."""
    @property
    def durable_sequence(self) -> int:
        """The durable watermark: every write up to this sequence number survives a power cut."""
    def updates_since(self, sequence: int) -> Updates:
        """Iterates over the writes after `sequence`. Raises `Error` if their WALs were removed: see `wal_size_limit`."""
    def checkpoint(self, folder: _Path) -> int:
        """Copies the store into a new directory, with hard links. Returns the sequence number of its last write."""
    def statistics(self) -> dict[str, Any]:
        """Returns metrics: the state of the store, and counts of its work since it was opened. `terrace stats --json` has the
        same names."""
    def batch(self, *, sync: bool = False) -> WriteBatch:
        """Returns a batch that is written at the end of its `with` block, unless the block raises an exception."""
    def snapshot(self) -> Snapshot:
        """Returns a read-only view of the store as of now."""
    def column_family(self, name: str) -> ColumnFamily:
        """Returns the column family `name`. Raises `MissingError` if there is none. Every store has `default`."""
    def create_column_family(self, name: str) -> ColumnFamily:
        """Creates the column family `name`, durably. Raises `InvalidError` if it exists. From the first new family on,
        LevelDB refuses to open the store."""
    def drop_column_family(self, name: str) -> None:
        """Deletes the column family `name` with all its pairs, durably. Later calls of the family raise `InvalidError`."""
    def column_families(self) -> list[str]:
        """Returns the names of the column families, in the order of their creation."""
    def transaction(
        self,
        *,
        isolation: Literal["serializable", "snapshot"] = "serializable",
        locking: Literal["optimistic", "pessimistic"] = "optimistic",
        lock_timeout: float = 1.0,
        sync: bool = False,
    ) -> Transaction:
        """Begins a transaction, which the end of its `with` block commits, unless the block raises an exception.

        `isolation`: whether the commit also checks what was read, or only written keys and those of `get_for_update`.
        `locking`: whether writes and `get_for_update` lock their keys, for at most `lock_timeout` seconds of waiting.
        `sync`: whether the commit survives a power cut.
        """
    def transact(
        self,
        function: Callable[[Transaction], _T],
        *,
        attempts: int = 100,
        isolation: Literal["serializable", "snapshot"] = "serializable",
        locking: Literal["optimistic", "pessimistic"] = "optimistic",
        lock_timeout: float = 1.0,
        sync: bool = False,
    ) -> _T:
        """Calls `function` with a transaction, commits it, and returns the result. After a `RetryableError` it begins again,
        until it has made `attempts` attempts. The function must have no effect outside of the transaction."""
    def flush(self) -> None:
        """Flushes the memtables into SSTables."""
    def property(self, name: str) -> Optional[str]:
        """Returns a LevelDB property, such as `leveldb.stats`; `None` if it does not exist."""
    def resume(self) -> None:
        """Resumes writes after `NoSpaceError`, once space is free again. Does nothing if writes have not stopped."""
    def wait_durable(self, sequence: Optional[int] = None) -> None:
        """Waits until every write up to `sequence`, by default the newest, survives a power cut."""
    def close(self) -> None:
        """Makes every write durable and closes the store. Does nothing if the store is closed already. Afterwards the
        store and its iterators, snapshots and batches raise `ClosedError`."""
    def __enter__(self) -> Db: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class ColumnFamily(_Space):
    """A key space of a store, an ordered mapping. All families of a store share one history: a batch over several of them is
    atomic, and a snapshot shows all of them at one moment."""

    @property
    def name(self) -> str: ...

class Transaction(_Writes):
    """Reads of one moment, that of the first call, and of the transaction's own writes; and writes that nobody else sees
    before the commit. Only one thread at a time may use a transaction. A transaction that is not committed discards its
    writes and releases its locks when it is rolled back or when nothing refers to it any more."""

    @property
    def ended(self) -> bool: ...
    @overload
    def get_for_update(self, key: _Bytes) -> Optional[bytes]:
        """Works like `get`. The commit fails if another write changes the key, with every isolation. A pessimistic
        transaction locks the key, and waits if another one has the lock."""
    @overload
    def get_for_update(self, key: _Bytes, default: _T) -> Union[bytes, _T]: ...
    def put(self, key: _Bytes, value: _Bytes) -> None: ...
    def delete(self, key: _Bytes) -> None:
        """Deletes `key`, which need not exist."""
    def delete_range(self, start: _Bytes, stop: _Bytes) -> None:
        """Deletes every key from `start` (included) to `stop` (excluded), and locks none of them."""
    def column_family(self, family: ColumnFamily) -> Transaction:
        """Returns the same transaction, as a mapping of a column family."""
    def set_savepoint(self) -> None:
        """Remembers the present state of the writes."""
    def rollback_to_savepoint(self) -> None:
        """Discards all writes since the newest savepoint, and the savepoint. Raises `InvalidError` if there is none."""
    def commit(self, *, sync: Optional[bool] = None) -> int:
        """Makes the writes visible together. Returns the sequence number of the last one. Raises `ConflictError` if another
        write has changed what the transaction depends on. The transaction ends in both cases, and so do its iterators."""
    def rollback(self) -> None:
        """Discards the writes and releases the locks. Does nothing if the transaction has ended."""
    def __enter__(self) -> Transaction: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class Snapshot(_Reads):
    """A read-only view of the store at the time of its creation. Release it soon: it keeps obsolete data on disk."""

    @property
    def sequence(self) -> int: ...
    def get_many(self, keys: Iterable[_Bytes]) -> list[Optional[bytes]]:
        """Returns the values of `keys`, all from one state of the store. Reads of storage run concurrently."""
    def column_family(self, family: ColumnFamily) -> Snapshot:
        """Returns the snapshot of a column family. A release of either one releases both."""
    def release(self) -> None: ...
    def __enter__(self) -> Snapshot: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class WriteBatch:
    """Puts and deletes that are applied atomically, in order."""

    def __init__(self) -> None: ...
    def put(self, key: _Bytes, value: _Bytes, *, family: Optional[ColumnFamily] = None) -> None: ...
    def delete(self, key: _Bytes, *, family: Optional[ColumnFamily] = None) -> None: ...
    def delete_range(self, start: _Bytes, stop: _Bytes, *, family: Optional[ColumnFamily] = None) -> None:
        """Deletes a key range. Needs a store created with `range_tombstones=True`: other stores refuse the batch."""
    def operations(self) -> list[tuple[str, bytes, Optional[bytes]]]:
        """Returns `("put", key, value)`, `("delete", key, None)`, `("delete_range", start, stop)`, in order.
        Raises `UnsupportedError` if there are writes to column families other than `default`."""
    def clear(self) -> None: ...
    def __setitem__(self, key: _Bytes, value: _Bytes) -> None: ...
    def __delitem__(self, key: _Bytes) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> WriteBatch: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

def open(
    path: _Path,
    *,
    create: bool = True,
    error_if_exists: bool = False,
    read_only: bool = False,
    preset: Optional[str] = None,
    **options: Any,
) -> Db:
    """Opens the store in directory `path` and creates it if it does not exist.

    With `create` (or `create_if_missing`) false, a missing store raises `MissingError`. `preset` is a named set of option
    values, such as "leveldb" or "bundled". Further arguments are options by name, such as `write_buffer_size="64MiB"` or
    `compression="none"`. An unknown name raises `InvalidError`, whose text suggests the most similar name.
    """

def open_in_memory(*, preset: Optional[str] = None, **options: Any) -> Db:
    """Creates a store in memory. Its contents are lost when it is closed."""

class Backups:
    """Incremental, checksummed backups in a directory. Backups share the files that did not change in between."""

    def __init__(self, folder: _Path) -> None: ...
    def create(self, db: Db, *, bytes_per_second: int = 0, scratch: Optional[_Path] = None) -> int:
        """Backs up the present state of the store. Returns the number of the backup. 0 bytes per second means no limit. A store
        on a device or in memory needs a new directory `scratch` for its checkpoint, which is removed at the end."""
    def list(self) -> list[dict[str, int]]:
        """Returns the backups, the oldest first: `id`, `created` (seconds since 1970), `sequence`, `files`, `bytes` and
        `added_bytes`. Raises `CorruptError` if a record is damaged."""
    def verify(self, id: Optional[int] = None) -> list[tuple[int, Optional[str], str]]:
        """Reads all files of a backup, or of all backups, and compares them with their SHA-256. Returns the damage: the
        number of the backup, the file of the store (or `None` for the record), and what is wrong."""
    def restore(self, folder: _Path, id: Optional[int] = None) -> int:
        """Restores a backup, by default the newest one, into an absent or empty directory. Returns the sequence number of
        its last write. Raises `CorruptError` if a file is damaged."""
    def purge(self, keep: int) -> list[int]:
        """Removes all backups except for the newest `keep`. Returns the numbers of the removed backups."""
    def remove(self, id: int) -> None:
        """Removes one backup."""

def destroy(path: _Path) -> None:
    """Deletes the files of the store in directory `path`, and no other files. Fails while the store is open."""

def repair(
    damaged: _Path, fresh: _Path, *, preset: Optional[str] = None, **options: Any
) -> tuple[int, list[tuple[str, int, int, str]]]:
    """Salvages the readable pairs of the store `damaged`, which cannot be opened, into the new store `fresh`.

    The damaged store is not changed. Returns the number of pairs in the new store, and the file, offset, number of bytes
    and reason of each loss.
    """
