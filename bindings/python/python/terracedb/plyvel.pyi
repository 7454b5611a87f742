import builtins
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union, final, overload

from . import Error as _Error

_Bytes = Union[bytes, bytearray, memoryview]
_Name = Union[str, bytes]
_T = TypeVar("_T")

__version__: str
__leveldb_version__: str

class Error(_Error): ...
class IOError(Error, builtins.IOError): ...
class CorruptionError(Error): ...
class IteratorInvalidError(Error): ...

class _Closes:
    def close(self) -> None: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class _Iterator(_Closes):
    """A position between two pairs of a range. The values depend on the arguments of `iterator`."""

    def __iter__(self) -> _Iterator: ...
    def __next__(self) -> Any: ...
    def prev(self) -> Any:
        """Moves back and returns the pair there. Raises `StopIteration` at the begin of the range."""
    def seek(self, target: _Bytes) -> None:
        """Moves before the first key of the range that is `target` or follows it."""
    def seek_to_start(self) -> None: ...
    def seek_to_stop(self) -> None: ...
    def __enter__(self) -> _Iterator: ...

class _RawIterator(_Closes):
    """LevelDB's iterator: at a pair, or not valid. Then reads and steps raise `IteratorInvalidError`."""

    def valid(self) -> bool: ...
    def seek_to_first(self) -> None: ...
    def seek_to_last(self) -> None: ...
    def seek(self, target: _Bytes) -> None: ...
    def next(self) -> None: ...
    def prev(self) -> None: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def item(self) -> tuple[bytes, bytes]: ...
    def __enter__(self) -> _RawIterator: ...

class _WriteBatch:
    """Puts and deletes that are applied atomically. A `with` block writes them at its end.

    After an exception the block writes them, too, unless the batch was created with `transaction=True`.
    """

    def put(self, key: _Bytes, value: _Bytes) -> None: ...
    def delete(self, key: _Bytes) -> None: ...
    def clear(self) -> None: ...
    def write(self) -> None: ...
    def append(self, source: _WriteBatch) -> None: ...
    def approximate_size(self) -> int: ...
    def __enter__(self) -> _WriteBatch: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

class _Reads:
    @overload
    def get(
        self, key: _Bytes, default: None = None, *, verify_checksums: Optional[bool] = None, fill_cache: Optional[bool] = True
    ) -> Optional[bytes]: ...
    @overload
    def get(
        self, key: _Bytes, default: _T, *, verify_checksums: Optional[bool] = None, fill_cache: Optional[bool] = True
    ) -> Union[bytes, _T]: ...
    def __iter__(self) -> _Iterator: ...
    def iterator(
        self,
        *,
        reverse: Optional[bool] = False,
        start: Optional[_Bytes] = None,
        stop: Optional[_Bytes] = None,
        include_start: Optional[bool] = True,
        include_stop: Optional[bool] = False,
        prefix: Optional[_Bytes] = None,
        include_key: Optional[bool] = True,
        include_value: Optional[bool] = True,
        verify_checksums: Optional[bool] = None,
        fill_cache: Optional[bool] = True,
    ) -> _Iterator: ...

class _Writes(_Reads):
    def put(self, key: _Bytes, value: _Bytes, *, sync: Optional[bool] = False) -> None: ...
    def delete(self, key: _Bytes, *, sync: Optional[bool] = False) -> None: ...
    def write_batch(self, *, transaction: Optional[bool] = False, sync: Optional[bool] = False) -> _WriteBatch: ...
    def snapshot(self) -> _Snapshot: ...
    def prefixed_db(self, prefix: bytes) -> _PrefixedDB: ...

class _Raw:
    def raw_iterator(
        self, *, verify_checksums: Optional[bool] = False, fill_cache: Optional[bool] = True
    ) -> _RawIterator: ...

class _PrefixedDB(_Writes):
    @property
    def db(self) -> DB: ...
    @property
    def prefix(self) -> bytes: ...

class _Snapshot(_Reads, _Raw, _Closes):
    def release(self) -> None: ...
    def __enter__(self) -> _Snapshot: ...

@final
class DB(_Writes, _Raw, _Closes):
    """A database. As in LevelDB, it must exist, unless `create_if_missing` is true."""

    def __init__(
        self,
        name: _Name,
        *,
        create_if_missing: Optional[bool] = False,
        error_if_exists: Optional[bool] = False,
        paranoid_checks: Optional[bool] = None,
        write_buffer_size: Optional[int] = None,
        max_open_files: Optional[int] = None,
        lru_cache_size: Optional[int] = None,
        block_size: Optional[int] = None,
        block_restart_interval: Optional[int] = None,
        max_file_size: Optional[int] = None,
        compression: Union[str, bytes, None] = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Optional[Callable[[bytes, bytes], float]] = None,
        comparator_name: Optional[bytes] = None,
    ) -> None: ...
    @property
    def name(self) -> _Name: ...
    @property
    def closed(self) -> bool: ...
    def get_property(self, name: bytes) -> Optional[bytes]: ...
    def compact_range(self, *, start: Optional[bytes] = None, stop: Optional[bytes] = None) -> None: ...
    def approximate_size(self, start: bytes, stop: bytes) -> int: ...
    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]: ...
    def __enter__(self) -> DB: ...

def repair_db(
    name: _Name,
    *,
    paranoid_checks: Optional[bool] = None,
    write_buffer_size: Optional[int] = None,
    max_open_files: Optional[int] = None,
    lru_cache_size: Optional[int] = None,
    block_size: Optional[int] = None,
    block_restart_interval: Optional[int] = None,
    max_file_size: Optional[int] = None,
    compression: Union[str, bytes, None] = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Optional[Callable[[bytes, bytes], float]] = None,
    comparator_name: Optional[bytes] = None,
) -> None:
    """Repairs a database in place. The damaged one is kept as `NAME.damaged-N`."""

def destroy_db(name: _Name) -> None:
    """Deletes the files of the database `name`, and the damaged databases that repairs of it have kept."""
