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
    """An iterator in key order, or in reverse. It sees the store as it was when the iterator was made."""

    def __iter__(self) -> Iterator[_Item]: ...
    def __next__(self) -> _Item: ...

class Updates:
    """What was written, oldest first: a sequence, to go on behind later, and the writes up to there as a batch."""

    def __iter__(self) -> Updates: ...
    def __next__(self) -> tuple[int, WriteBatch]: ...

class _Reads:
    @overload
    def get(self, key: _Bytes) -> Optional[bytes]:
        """The value of `key`, or `default`."""
    @overload
    def get(self, key: _Bytes, default: _T) -> Union[bytes, _T]: ...
    def __getitem__(self, key: _Bytes) -> bytes: ...
    def __contains__(self, key: _Bytes) -> bool: ...
    def __iter__(self) -> Iterator[bytes]:
        """All keys."""
    def keys(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Pairs[bytes]:
        """Keys from `start`, included, to `stop`, excluded, that begin with `prefix`; `reverse` begins at the end."""
    def values(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Pairs[bytes]:
        """Values of the same keys."""
    def items(
        self,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
        reverse: bool = False,
    ) -> Pairs[tuple[bytes, bytes]]:
        """Both."""

class Db(_Reads):
    """A mapping from bytes to bytes on storage, in key order. Made by `open` and `open_in_memory`.

    At the end of a `with` block it is closed. One that is never closed loses nothing that was written, unless the power fails
    before the kernel has written it.
    """

    @property
    def closed(self) -> bool: ...
    @property
    def last_sequence(self) -> int:
        """Number of the newest write; 0 before the first."""
    @property
    def durable_sequence(self) -> int:
        """Every write up to this number survives a power cut."""
    def get_many(self, keys: Iterable[_Bytes]) -> list[Optional[bytes]]:
        """The values of `keys`, all as of one moment; reads of storage overlap."""
    def put(self, key: _Bytes, value: _Bytes, *, sync: bool = False) -> None:
        """Sets `key` to `value`. Survives the end of the process; a power cut only with `sync`."""
    def delete(self, key: _Bytes, *, sync: bool = False) -> None:
        """Removes `key`. Fine if it is not there."""
    def __setitem__(self, key: _Bytes, value: _Bytes) -> None: ...
    def __delitem__(self, key: _Bytes) -> None:
        """Removes `key`; `KeyError` if it is not there, so it costs a read that `delete` does not."""
    def delete_range(self, start: _Bytes, stop: _Bytes, *, sync: bool = False) -> None:
        """Removes every key from `start` to `stop`, excluded; nothing if the range is empty.

        In stores made with `range_tombstones=True` that is one write. In others keys are deleted one by one: in one atomic batch as long as the
        deletes fit `write_buffer_size`; a larger range is split into several batches and is not atomic."""
    def write(self, batch: WriteBatch, *, sync: bool = False, log: bool = True) -> int:
        """Applies all of `batch` or nothing. Returns the number of its last write, for `wait_durable`.

        Without `log` it is faster, and lost with the process, and so is what is written behind it without `sync`, until
        `wait_durable` or `close` returns.
        """
    def updates_since(self, sequence: int) -> Updates:
        """What was written behind `sequence`. `Error` where the logs have it no longer; `wal_size_limit` keeps more."""
    def ingest(self, paths: Sequence[_Path]) -> int:
        """Takes over sorted tables, all at once and durably. Returns how many puts and deletes were in them."""
    def export(
        self,
        folder: _Path,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        *,
        prefix: Optional[_Bytes] = None,
    ) -> list[pathlib.Path]:
        """Writes the pairs of these keys into sorted tables, in a directory that is there. Returns their paths."""
    def checkpoint(self, folder: _Path) -> int:
        """Makes a copy of the store, by links, in a new directory. Returns the sequence up to which it has everything."""
    def statistics(self) -> dict[str, Any]:
        """The state of the store and what it did since it was opened, by the names of `terrace stats --json`."""
    def batch(self, *, sync: bool = False) -> WriteBatch:
        """A batch that is written when its `with` block is left without an exception."""
    def snapshot(self) -> Snapshot: ...
    def flush(self) -> None:
        """Moves what is in memory into tables."""
    def compact(self, start: Optional[_Bytes] = None, stop: Optional[_Bytes] = None) -> None:
        """Merges what the keys from `start` to `stop`, both included, hold, so that deleted data goes."""
    def approximate_size(self, start: _Bytes, stop: _Bytes) -> int:
        """About how many bytes of tables the keys from `start` to `stop` take. Memory does not count."""
    def property(self, name: str) -> Optional[str]:
        """A property of LevelDB's, such as `leveldb.stats`; `None` if there is none of this name."""
    def resume(self) -> None:
        """Goes on after `NoSpaceError`, once there is space again. Does nothing in a store that has not stopped."""
    def wait_durable(self, sequence: Optional[int] = None) -> None:
        """Returns once every write up to `sequence`, or up to the newest, survives a power cut."""
    def close(self) -> None:
        """Makes every write durable. Fine if it is closed already. From then on the store and its iterators, snapshots and batches raise
        `ClosedError`."""
    def __enter__(self) -> Db: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class Snapshot(_Reads):
    """The store as it was when this was made. Holds back the removal of what it sees: release it soon."""

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
    """Puts and deletes that are applied together or not at all, in order."""

    def __init__(self) -> None: ...
    def put(self, key: _Bytes, value: _Bytes) -> None: ...
    def delete(self, key: _Bytes) -> None: ...
    def delete_range(self, start: _Bytes, stop: _Bytes) -> None:
        """Only in stores made with `range_tombstones=True`; others refuse the batch when it is written. An empty range does nothing."""
    def operations(self) -> list[tuple[str, bytes, Optional[bytes]]]:
        """`("put", key, value)`, `("delete", key, None)`, `("delete_range", start, stop)`, in order."""
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
    """Opens the store in directory `path`; makes it if it is missing, unless `create` (or `create_if_missing`) is false: then `MissingError`.

    `preset` is a named choice of options, such as "leveldb" or "default"; further arguments are options by their names,
    `write_buffer_size="64MiB"`, `compression="none"`. A name that is not one raises `InvalidError`, which lists those there are.
    """

def open_in_memory(*, preset: Optional[str] = None, **options: Any) -> Db:
    """A new store in memory, gone when it is closed."""

def destroy(path: _Path) -> None:
    """Removes the store in directory `path`: its own files and nothing else. Refused while it is open."""

def repair(
    damaged: _Path, fresh: _Path, *, preset: Optional[str] = None, **options: Any
) -> tuple[int, list[tuple[str, int, int, str]]]:
    """Salvages what can be read of a store that does not open any more into a new one; the damaged one is not touched.

    Returns the number of pairs that the new store holds, and what could not be read: file, offset, bytes, reason.
    """
