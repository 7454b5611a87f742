"""The interface of the package plyvel, for programs that use it:

    import terracedb.plyvel as plyvel

    db = plyvel.DB("/tmp/cities", create_if_missing=True)
    db.put(b"oslo", b"709 000")

Source of the interface: plyvel 1.5.1, doc/api.rst. What differs is in docs/python.md.
"""

import atexit
import builtins

from . import _errors, _terracedb

__all__ = [
    "CorruptionError",
    "DB",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "repair_db",
]

_native = _terracedb.plyvel

#: The version of plyvel whose interface this module has.
__version__ = "1.5.1"
#: The version of LevelDB whose files the engine reads and writes.
__leveldb_version__ = "1.23"


class Error(_errors.Error):
    """A failed operation. The text begins with LevelDB's words for the kind of the failure."""


class IOError(Error, builtins.IOError):
    """The operating system reported an error, the database is in use, or writes have stopped."""


class CorruptionError(Error):
    """Bytes on storage differ from those that were written."""


class IteratorInvalidError(Error):
    """A raw iterator is not at a pair."""


# Closes the databases with a comparator. Their background threads call Python, so they end before the interpreter does.
atexit.register(_native.close_all)


class DB(_native.Writes):
    """A database. The arguments after `name` are those of plyvel; see the type stubs."""

    __slots__ = ("__weakref__", "_handle", "_name")

    def __new__(cls, name, **options):
        handle = _native.Handle(name, **options)
        self = super().__new__(cls, handle, b"")
        self._handle = handle
        self._name = name
        return self

    @property
    def name(self):
        """The name that was given at the open."""
        return self._name

    @property
    def closed(self):
        return self._handle.closed

    def close(self):
        """Closes the database and its iterators. All writes are durable afterwards."""
        self._handle.close()

    def raw_iterator(self, *, verify_checksums=False, fill_cache=True):
        """Returns an iterator with LevelDB's interface. It is not at a pair yet."""
        return self._raw_iterator(verify_checksums=verify_checksums, fill_cache=fill_cache)

    def snapshot(self):
        """Returns a read-only view of the database as of now."""
        return Snapshot(self._handle, b"")

    def prefixed_db(self, prefix):
        """Returns a view of the keys that start with `prefix`, without the prefix."""
        return PrefixedDB(db=self, prefix=prefix)

    def get_property(self, name):
        """Returns a property such as `b"leveldb.stats"`, or `None` if it does not exist."""
        return self._handle.property(name)

    def compact_range(self, *, start=None, stop=None):
        """Compacts the keys from `start` to `stop`, both included. `None` is no bound."""
        self._handle.compact(start, stop)

    def approximate_size(self, start, stop):
        """Estimates the bytes that the keys from `start` to `stop` use in files."""
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges):
        """Estimates the bytes of several ranges, which are pairs of `start` and `stop`."""
        return self._handle.approximate_sizes(ranges)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __repr__(self):
        return f"<terracedb.plyvel.DB {self._name!r}, {'closed' if self.closed else 'open'}>"


class PrefixedDB(_native.Writes):
    """A view of the keys of a database that start with `prefix`, without the prefix. Created by `prefixed_db`."""

    __slots__ = ("__weakref__", "_db", "_prefix")

    def __new__(cls, *, db, prefix):
        self = super().__new__(cls, db._handle, prefix)
        self._db = db
        self._prefix = prefix
        return self

    @property
    def db(self):
        return self._db

    @property
    def prefix(self):
        return self._prefix

    def snapshot(self):
        """Returns a read-only view of these keys as of now."""
        return Snapshot(self._db._handle, self._prefix)

    def prefixed_db(self, prefix):
        """Returns a view of the keys that start with this object's prefix and then `prefix`."""
        return PrefixedDB(db=self._db, prefix=self._prefix + prefix)

    def __repr__(self):
        return f"<terracedb.plyvel.PrefixedDB {self._prefix!r} of {self._db!r}>"


class Snapshot(_native.Reads):
    """A read-only view of a database at one moment. Created by the method `snapshot`."""

    __slots__ = ("__weakref__",)

    def raw_iterator(self, *, verify_checksums=False, fill_cache=True):
        """Returns an iterator with LevelDB's interface, over all keys of the database."""
        return self._raw_iterator(verify_checksums=verify_checksums, fill_cache=fill_cache)

    def close(self):
        """Releases the snapshot. Does nothing if it is released already."""
        self._release()

    release = close

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()


def repair_db(name, **options):
    """Repairs a database in place. The damaged one is kept as `NAME.damaged-N`. Takes the options of `DB`."""
    _native.repair(name, **options)


def destroy_db(name):
    """Deletes the files of the database `name`, and the damaged databases that repairs of it have kept."""
    _native.destroy(name)
