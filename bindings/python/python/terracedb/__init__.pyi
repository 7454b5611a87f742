import os
import pathlib
from types import TracebackType
from typing import Any, Generic, Iterable, Iterator, Optional, Sequence, TypeVar, Union, overload

from ._errors import (
    ClosedError as ClosedError,
    CorruptError as CorruptError,
    Error as Error,
    InUseError as InUseError,
    InvalidError as InvalidError,
    MissingError as MissingError,
    NoSpaceError as NoSpaceError,
    ReadOnlyError as ReadOnlyError,
    StoppedError as StoppedError,
    StorageError as StorageError,
    UnsupportedError as UnsupportedError,
)

_Bytes = Union[bytes, bytearray, memoryview]
_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_T = TypeVar("_T")
_Item = TypeVar("_Item", covariant=True)

class Pairs(Generic[_Item]):
    """An iterator in key order, or in reverse, over the store as of the creation of the iterator."""

    def __iter__(self) -> Iterator[_Item]: ...
    def __next__(self) -> _Item: ...

class Updates:
    """An iterator over the write history, oldest first: the sequence number to continue from, and a batch."""

    def __iter__(self) -> Updates: ...
    def __next__(self) -> tuple[int, WriteBatch]: ...

class _Reads:
    @overload
    def get(self, key: _Bytes) -> Optional[bytes]:
        """Returns the value of `key`, or `default`."""
    @overload
    def get(self, key: _Bytes, default: _T) -> Union[bytes, _T]: ...
    def __getitem__(self, key: _Bytes) -> bytes: ...
    def __contains__(self, key: _Bytes) -> bool: ...
    def __iter__(self) -> Iterator[bytes]:
        """Iterates over all keys."""
    def keys(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Pairs[bytes]:
        """Iterates over keys from `start` (included) to `stop` (excluded) that start with `prefix`."""
    def values(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Pairs[bytes]:
        """Iterates over the values of these keys."""
    def items(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Pairs[tuple[bytes, bytes]]:
        """Iterates over the pairs of these keys."""

class Db(_Reads):
    """An ordered mapping from bytes to bytes on storage. Created by `open` and `open_in_memory`.

    The end of a `with` block closes it. A store that is never closed loses no writes, unless the power fails before the
    kernel has written them.
    """

    @property
    def closed(self) -> bool: ...
    @property
    def last_sequence(self) -> int:
        """The sequence number of the newest write; 0 before the first."""
    @property
    def durable_sequence(self) -> int:
        """The durable watermark: every write up to this sequence number survives a power cut."""
    def get_many(self, keys: Iterable[_Bytes]) -> list[Optional[bytes]]:
        """Returns the values of `keys`, all as of one moment. Reads of storage overlap."""
    def put(self, key: _Bytes, value: _Bytes, *, sync: bool = False) -> None:
        """Sets `key` to `value`. The write survives the end of the process, and with `sync` also a power cut."""
    def delete(self, key: _Bytes, *, sync: bool = False) -> None:
        """Deletes `key`, which need not exist."""
    def __setitem__(self, key: _Bytes, value: _Bytes) -> None: ...
    def __delitem__(self, key: _Bytes) -> None:
        """Deletes `key`. Raises `KeyError` if it does not exist, and therefore costs a read; see `delete`."""
    def delete_range(self, start: _Bytes, stop: _Bytes, *, sync: bool = False) -> None:
        """Deletes every key from `start` (included) to `stop` (excluded).

        In a store created with `range_tombstones=True` this is one write. Otherwise each key is deleted: in one atomic
        batch if the deletes fit `write_buffer_size`, else in several batches, which are not atomic together."""
    def write(self, batch: WriteBatch, *, sync: bool = False, log: bool = True) -> int:
        """Applies `batch` atomically. Returns the sequence number of its last write, for `wait_durable`.

        With `log=False` the batch is not written to the WAL. That is faster, but the end of the process loses it, and
        all later writes without `sync`, until `wait_durable` or `close` returns.
        """
    def updates_since(self, sequence: int) -> Updates:
        """Iterates over the writes after `sequence`. Raises `Error` if the WALs no longer have them: see `wal_size_limit`."""
    def ingest(self, paths: Sequence[_Path]) -> int:
        """Ingests SSTables, atomically and durably. Returns the number of their puts and deletes."""
    def export(
        self,
        folder: _Path,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
    ) -> list[pathlib.Path]:
        """Writes the pairs of these keys into SSTables in an existing directory. Returns their paths."""
    def checkpoint(self, folder: _Path) -> int:
        """Copies the store into a new directory, with hard links. Returns the sequence number up to which it is complete."""
    def statistics(self) -> dict[str, Any]:
        """Returns the state of the store and its work since it was opened, by the names of `terrace stats --json`."""
    def batch(self, *, sync: bool = False) -> WriteBatch:
        """Returns a batch that is written at the end of its `with` block, unless the block raises an exception."""
    def snapshot(self) -> Snapshot: ...
    def flush(self) -> None:
        """Flushes the memtables into SSTables."""
    def compact(self, start: Optional[_Bytes] = None, stop: Optional[_Bytes] = None) -> None:
        """Compacts the keys from `start` to `stop`, both included, which drops deleted data."""
    def approximate_size(self, start: _Bytes, stop: _Bytes) -> int:
        """Estimates the bytes of SSTables that the keys from `start` to `stop` take. Memtables are not counted."""
    def property(self, name: str) -> Optional[str]:
        """Returns a LevelDB property, such as `leveldb.stats`; `None` if it does not exist."""
    def resume(self) -> None:
        """Resumes writes after `NoSpaceError`, once space is free again. Does nothing if writes have not stopped."""
    def wait_durable(self, sequence: Optional[int] = None) -> None:
        """Waits until every write up to `sequence`, by default the newest, survives a power cut."""
    def close(self) -> None:
        """Makes every write durable and closes the store. Does nothing if it is closed already. The store and its
        iterators, snapshots and batches raise `ClosedError` afterwards."""
    def __enter__(self) -> Db: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class Snapshot(_Reads):
    """A read-only view of the store as of its creation. It keeps obsolete data from being dropped: release it soon."""

    @property
    def sequence(self) -> int: ...
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
    def put(self, key: _Bytes, value: _Bytes) -> None: ...
    def delete(self, key: _Bytes) -> None: ...
    def delete_range(self, start: _Bytes, stop: _Bytes) -> None:
        """Needs a store created with `range_tombstones=True`; others refuse the batch. An empty range does nothing."""
    def operations(self) -> list[tuple[str, bytes, Optional[bytes]]]:
        """Returns `("put", key, value)`, `("delete", key, None)`, `("delete_range", start, stop)`, in order."""
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
    values, such as "leveldb" or "bundled"; further arguments are options by name, `write_buffer_size="64MiB"`,
    `compression="none"`. An unknown name raises `InvalidError` with the nearest one.
    """

def open_in_memory(*, preset: Optional[str] = None, **options: Any) -> Db:
    """Creates a store in memory, which is lost when it is closed."""

def destroy(path: _Path) -> None:
    """Deletes the files of the store in directory `path`, and no other files. Fails while it is open."""

def repair(
    damaged: _Path, fresh: _Path, *, preset: Optional[str] = None, **options: Any
) -> tuple[int, list[tuple[str, int, int, str]]]:
    """Salvages the readable pairs of a store that cannot be opened, into a new store. The damaged one is not changed.

    Returns the number of pairs in the new store, and file, offset, bytes and reason of each loss.
    """
