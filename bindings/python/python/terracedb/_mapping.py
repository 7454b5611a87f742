"""The classes `Db`, `ColumnFamily`, `Snapshot` and `Transaction`: the extension's classes with the methods of Python's
mappings."""

import itertools
import os
from collections.abc import Mapping, MutableMapping

from . import _terracedb
from ._errors import RetryableError
from ._views import Items, Keys, Values


class _Reads(Mapping):
    """Methods that all mappings of this package have in common."""

    __slots__ = ()

    def keys(self, start=None, stop=None, *, prefix=None, reverse=False):
        """Returns a view of the keys from `start` (included) to `stop` (excluded) that start with `prefix`."""
        return Keys(self, self._bounds(start, stop, prefix=prefix), reverse)

    def values(self, start=None, stop=None, *, prefix=None, reverse=False):
        """Returns a view of the values of the keys that `keys` would return for these arguments."""
        return Values(self, self._bounds(start, stop, prefix=prefix), reverse)

    def items(self, start=None, stop=None, *, prefix=None, reverse=False):
        """Returns a view of the keys that `keys` would return for these arguments, with their values."""
        return Items(self, self._bounds(start, stop, prefix=prefix), reverse)

    def __reversed__(self):
        return reversed(self.keys())

    def __eq__(self, other):
        """Compares all pairs, until two differ. Stores that hold the same pairs are equal."""
        if self is other:
            return True
        if isinstance(other, _Reads):
            pairs, others = iter(self.items()), iter(other.items())
            return all(pair == next(others, None) for pair in pairs) and next(others, None) is None
        if isinstance(other, Mapping):
            left = len(other)
            for key, value in self.items():
                if left == 0 or key not in other or other[key] != value:
                    return False
                left -= 1
            return left == 0
        return NotImplemented

    __hash__ = None


class _Writes(_Reads, MutableMapping):
    """Methods that stores, column families and transactions have in common."""

    __slots__ = ()

    def update(self, other=(), /, **pairs):
        """Puts all pairs of a mapping, or of an iterable of pairs, atomically. They must fit in memory."""
        if isinstance(other, Mapping):
            other = other.items()
        elif hasattr(other, "keys"):
            other = [(key, other[key]) for key in other.keys()]
        # The names of arguments are not bytes, so a put of them raises TypeError.
        self._put_all(itertools.chain(other, pairs.items()))

    def clear(self):
        """Deletes every key that there is at the time of the call. Large stores are not cleared atomically."""
        last = next(reversed(self), None)
        if last is not None:
            self.delete_range(b"", last)
            self.delete(last)


class Db(_terracedb.Db, _Writes):
    """An ordered mapping from bytes to bytes on storage. Created by `open` and `open_in_memory`.

    The end of a `with` block closes the store. A store that is never closed loses no writes, unless the power fails
    before the kernel has written them.
    """

    __slots__ = ("__weakref__",)

    def snapshot(self):
        """Returns a read-only view of the store as of now."""
        return Snapshot(self)

    def column_family(self, name):
        """Returns the column family `name`; raises `MissingError` if there is none."""
        return ColumnFamily(self, name, False)

    def create_column_family(self, name):
        """Creates the column family `name`, durably; raises `InvalidError` if it exists."""
        return ColumnFamily(self, name, True)

    def transaction(self, **options):
        """Begins a transaction, which the end of its `with` block commits."""
        return Transaction(self, **options)

    def transact(self, function, *, attempts=100, **options):
        """Calls `function` with a transaction, commits it, and returns the result. Repeats after a conflict."""
        while True:
            attempts -= 1
            try:
                with Transaction(self, **options) as transaction:
                    return function(transaction)
            except RetryableError:
                if attempts <= 0:
                    raise

    def _put_all(self, pairs):
        batch = _terracedb.WriteBatch()
        for key, value in pairs:
            batch.put(key, value)
        self.write(batch)


class ColumnFamily(_terracedb.ColumnFamily, _Writes):
    """A key space of a store: an ordered mapping. Created by `Db.column_family` and `Db.create_column_family`."""

    __slots__ = ("__weakref__",)

    def _put_all(self, pairs):
        batch = _terracedb.WriteBatch()
        for key, value in pairs:
            batch.put(key, value, family=self)
        self.write(batch)


class Snapshot(_terracedb.Snapshot, _Reads):
    """A read-only view of the store at the time of its creation. Release it soon: it keeps obsolete data on disk."""

    __slots__ = ("__weakref__",)

    def column_family(self, family):
        """Returns the snapshot of a column family. A release of either one releases both."""
        return Snapshot(self, family)


class Transaction(_terracedb.Transaction, _Writes):
    """Reads of one moment and writes that nobody else sees before the commit: an ordered mapping.

    The end of a `with` block commits the transaction, unless the block raises an exception.
    """

    __slots__ = ("__weakref__",)

    def column_family(self, family):
        """Returns the same transaction, as a mapping of a column family."""
        return Transaction(self, family)

    def _put_all(self, pairs):
        for key, value in pairs:
            self.put(key, value)


def open(path, **options):
    """Opens the store in the directory `path` and creates it if it does not exist.

    With `create` (or `create_if_missing`) false, a missing store raises `MissingError`. `preset` is a named set of
    option values, such as "leveldb" or "bundled". Further arguments are options by name.
    """
    return Db(os.fspath(path), **options)


def open_in_memory(*, preset=None, **options):
    """Creates a store in memory. Its contents are lost when it is closed."""
    return Db(None, preset=preset, **options)
