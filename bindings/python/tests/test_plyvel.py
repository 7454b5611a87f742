"""Tests of the module terracedb.plyvel. `make plyvel` also runs plyvel's own tests."""

import array
import builtins
import gc
import os
import random
import subprocess
import threading
import weakref

import pytest

import terracedb
from terracedb import plyvel


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "db")


@pytest.fixture
def db(path):
    with plyvel.DB(path, create_if_missing=True) as db:
        yield db


def reversed_order(a, b):
    return (a < b) - (a > b)


def test_errors_have_classes_of_both_modules(path, tmp_path):
    with pytest.raises(plyvel.Error, match=f"^Invalid argument: {path}: does not exist .create_if_missing is false") as caught:
        plyvel.DB(path)
    assert isinstance(caught.value, terracedb.Error) and not isinstance(caught.value, OSError)
    with plyvel.DB(path, create_if_missing=True):
        with pytest.raises(plyvel.IOError, match=f"^IO error: lock {path}/LOCK: already held by process") as caught:
            plyvel.DB(path)
        assert isinstance(caught.value, builtins.IOError)
    with pytest.raises(plyvel.Error, match=f"^Invalid argument: {path}: exists .error_if_exists is true"):
        plyvel.DB(path, error_if_exists=True)
    with pytest.raises(plyvel.Error, match="^Invalid argument: missing store"):
        plyvel.repair_db(str(tmp_path / "none"))
    with open(os.path.join(path, "CURRENT"), "w") as current:
        current.write("nonsense")
    with pytest.raises(plyvel.CorruptionError, match="^Corruption: .*CURRENT"):
        plyvel.DB(path)


def test_arguments_of_the_open(path):
    wrong = [
        (dict(write_buffer_size="4"), TypeError, "'write_buffer_size' must be an int, not str"),
        (dict(max_open_files=2.5), TypeError, "'max_open_files' must be an int, not float"),
        (dict(block_size=-1), ValueError, "'block_size' must not be negative"),
        (dict(create_if_missing=1), TypeError, "'create_if_missing' must be a bool, not int"),
        (dict(compression=1), TypeError, "'compression' must be None or a str, not int"),
        (dict(compression="lz4"), ValueError, "'compression'.*lz4"),
        (dict(nonsense=1), TypeError, "DB.. has no argument 'nonsense'"),
        (dict(comparator=reversed_order), ValueError, "together"),
        (dict(comparator=1, comparator_name=b"x"), TypeError, "'comparator' must be callable, not int"),
        (dict(comparator=reversed_order, comparator_name="x"), TypeError, "'comparator_name' must be bytes, not str"),
        (dict(comparator=reversed_order, comparator_name=b"\xff"), ValueError, "UTF-8"),
        (dict(comparator=reversed_order, comparator_name=b"leveldb.x"), ValueError, "reserved"),
    ]
    for options, error, text in wrong:
        with pytest.raises(error, match=text):
            plyvel.DB(path, **{"create_if_missing": True, **options})
    assert not os.path.exists(path)
    extreme = dict(
        write_buffer_size=1, max_open_files=0, lru_cache_size=0, block_size=1, block_restart_interval=0, max_file_size=0,
        bloom_filter_bits=1000, paranoid_checks=None, compression=b"snappy",
    )
    with plyvel.DB(os.fsencode(path), create_if_missing=True, **extreme) as db:
        db.put(b"a", b"1")
    with plyvel.DB(path, write_buffer_size=1 << 62, max_file_size=1 << 62, compression=None) as db:
        assert db.get(b"a") == b"1" and db.name == path


def test_values_are_bytes_like(db):
    db.put(b"a", array.array("H", [1, 2]))
    assert db.get(b"a") == array.array("H", [1, 2]).tobytes()
    for act in (lambda: db.put("a", b""), lambda: db.get(None), lambda: db.write_batch().put(b"", 1), lambda: db.delete(1)):
        with pytest.raises(TypeError, match="not (str|NoneType|int)"):
            act()
    for act in (lambda: db.get(b"a", None, True), lambda: db.put(b"a", b"", True), lambda: db.iterator(True)):
        with pytest.raises(TypeError, match="positional"):
            act()


def test_an_iterator_over_one_key(db):
    """plyvel's reverse iterator skips the start key if it is the only key of the range."""
    for key in (b"1", b"2", b"3"):
        db.put(key, key)
    for reverse in (False, True):
        assert list(db.iterator(start=b"2", stop=b"3", reverse=reverse, include_value=False)) == [b"2"]
        assert list(db.iterator(start=b"2", stop=b"2", include_stop=True, reverse=reverse, include_key=False)) == [b"2"]
    excluded = db.iterator(start=b"1", include_start=False, include_value=False)
    excluded.seek(b"0")
    assert next(excluded) == b"2"


class Model:
    """An iterator over a sorted list: a position between two of the keys that the range covers."""

    def __init__(self, keys, reverse, start=None, stop=None, include_start=True, include_stop=False, prefix=None):
        begins = lambda key: start is None or key > start or include_start and key == start
        ends = lambda key: stop is None or key < stop or include_stop and key == stop
        self.keys = [key for key in keys if begins(key) and ends(key) and (prefix is None or key.startswith(prefix))]
        self.reverse = reverse
        self.at = len(self.keys) if reverse else 0

    def step(self, forward):
        at = self.at if forward else self.at - 1
        if not 0 <= at < len(self.keys):
            return StopIteration
        self.at += 1 if forward else -1
        return self.keys[at]

    def move(self, name, target):
        if name == "seek":
            self.at = sum(key < target for key in self.keys)
        elif name.startswith("seek"):
            self.at = 0 if name == "seek_to_start" else len(self.keys)
        else:
            return self.step((name == "next") != self.reverse)


@pytest.mark.parametrize("custom", [False, True])
def test_iterators_move_as_a_model_does(path, custom):
    choose = random.Random(53)
    keys = sorted({b"%02d" % choose.randrange(100) for _ in range(30)} | {b"\xff", b"\xff\xff"})
    named = dict(comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"slow bytewise") if custom else {}
    with plyvel.DB(path, create_if_missing=True, **named) as db:
        for key in keys:
            db.put(key, b"")
            db.put(key + b"z", b"")
        for key in keys:
            db.delete(key + b"z")
        some = lambda: choose.choice([None, choose.choice(keys), choose.choice(keys) + b"x", b"", b"\xff"])
        for _ in range(1000):
            options = dict(start=some(), stop=some(), include_start=choose.random() < 0.6, include_stop=choose.random() < 0.4)
            if choose.random() < 0.3:
                options = dict(prefix=choose.choice([b"0", b"00", b"01", b"\xff", b""]))
            reverse = choose.random() < 0.5
            iterator, model = db.iterator(reverse=reverse, include_value=False, **options), Model(keys, reverse, **options)
            for _ in range(30):
                name = choose.choice(["next", "prev"] * 4 + ["seek_to_start", "seek_to_stop", "seek"])
                target = some() or b""
                try:
                    act = iterator.__next__ if name == "next" else getattr(iterator, name)
                    seen = act(*[target] * (name == "seek"))
                except StopIteration:
                    seen = StopIteration
                assert seen == model.move(name, target), (reverse, options, name, target)


def test_turns_within_and_between_chunks(db):
    keys = [b"%04d" % n for n in range(2000)]
    with db.write_batch() as batch:
        for key in keys:
            batch.put(key, key * 3)
    for reverse in (False, True):
        order = keys[::-1] if reverse else keys
        iterator = db.iterator(include_value=False, reverse=reverse)
        for place in (0, 1, 3, 4, 5, 11, 12, 13, 500, 1999, 2000):
            iterator.seek_to_stop() if reverse else iterator.seek_to_start()
            assert [next(iterator) for _ in range(place)] == order[:place]
            assert [iterator.prev() for _ in range(place)] == order[:place][::-1]
            with pytest.raises(StopIteration):
                iterator.prev()
            assert next(iterator) == order[0]


@pytest.mark.parametrize("transaction", [False, True])
def test_batches_after_an_exception(db, transaction):
    with pytest.raises(ZeroDivisionError):
        with db.write_batch(transaction=transaction, sync=True) as batch:
            batch.put(b"k", b"v")
            raise ZeroDivisionError
    assert db.get(b"k") == (None if transaction else b"v")
    batch.write()  # the batch is empty now
    batch.put(b"l", b"v")
    assert db.get(b"l") is None
    batch.write()
    batch.write()
    assert db.get(b"l") == b"v"


def test_prefixed_databases_nest(db):
    inner = db.prefixed_db(b"a").prefixed_db(b"\xff")
    inner.put(b"k", b"v")
    db.put(b"b", b"outside")
    assert inner.prefix == b"a\xff" and inner.db is db and db.get(b"a\xffk") == b"v"
    assert list(inner) == [(b"k", b"v")] and list(inner.snapshot()) == [(b"k", b"v")]
    assert list(inner.iterator(prefix=b"x")) == [] and list(inner.iterator(reverse=True)) == [(b"k", b"v")]
    with inner.write_batch(transaction=True) as batch:
        batch.delete(b"k")
        batch.append(batch)
    assert list(inner) == [] and list(db) == [(b"b", b"outside")]
    last = db.prefixed_db(b"\xff\xff")
    last.put(b"", b"last")
    assert list(last) == [(b"", b"last")]
    with pytest.raises(AttributeError):
        inner.prefix = b""
    assert not hasattr(inner, "close") and not hasattr(db.snapshot(), "put")


def test_everything_ends_with_the_database(path):
    db = plyvel.DB(path, create_if_missing=True)
    db.put(b"k", b"v")
    snapshot, batch, prefixed = db.snapshot(), db.write_batch(), db.prefixed_db(b"k")
    iterators = [db.iterator(), snapshot.iterator(), prefixed.iterator(), db.raw_iterator(), snapshot.raw_iterator()]
    [next(iterator) for iterator in iterators[:3]]
    released = db.snapshot()
    released.close()
    for act in (lambda: released.get(b"k"), lambda: released.iterator(), lambda: released.raw_iterator()):
        with pytest.raises(RuntimeError, match="closed"):
            act()
    db.close()
    db.close()
    acts = [
        lambda: db.get(b"k"), lambda: db.put(b"k", b""), lambda: db.delete(b"k"), lambda: db.write_batch(), lambda: list(db),
        lambda: db.iterator(), lambda: db.raw_iterator(), lambda: db.snapshot(), lambda: db.get_property(b"leveldb.stats"),
        lambda: db.compact_range(), lambda: db.approximate_size(b"", b"x"), lambda: snapshot.get(b"k"),
        lambda: snapshot.iterator(), lambda: batch.put(b"k", b""), lambda: batch.delete(b"k"), lambda: batch.clear(),
        lambda: batch.write(), lambda: batch.approximate_size(), lambda: batch.append(batch), lambda: batch.__enter__(),
        lambda: prefixed.get(b""), lambda: prefixed.put(b"", b""), lambda: prefixed.snapshot(),
    ]  # fmt: skip
    for iterator in iterators[:3]:
        acts += [iterator.__next__, iterator.prev, iterator.seek_to_start, iterator.seek_to_stop, lambda i=iterator: i.seek(b"")]
    for raw in iterators[3:]:
        acts += [raw.valid, raw.seek_to_first, raw.seek_to_last, raw.next, raw.prev, raw.key, raw.value, raw.item]
    for act in acts:
        with pytest.raises(RuntimeError, match="closed"):
            act()
    [iterator.close() for iterator in iterators]
    snapshot.close()
    with plyvel.DB(path):  # although the objects are alive
        pass


def test_objects_without_references_are_released(path):
    db = plyvel.DB(path, create_if_missing=True)
    db.put(b"k", b"v")
    iterator = db.iterator()
    name = weakref.ref(db)
    assert weakref.ref(iterator)() is iterator and bool(db)
    del db
    gc.collect()
    assert name() is None and next(iterator) == (b"k", b"v")
    del iterator
    plyvel.DB(path).close()


def test_repair_keeps_the_damaged_database(path):
    with plyvel.DB(path, create_if_missing=True) as db:
        db.put(b"foo", b"bar")
        with pytest.raises(plyvel.IOError, match="already held by process"):
            plyvel.repair_db(path)
    os.remove(os.path.join(path, "CURRENT"))
    with pytest.raises(plyvel.Error):
        plyvel.DB(path)
    plyvel.repair_db(path)
    with plyvel.DB(path) as db:
        assert db.get(b"foo") == b"bar"
    assert os.path.isdir(path + ".damaged-1")
    with pytest.raises(TypeError, match="repair_db.. has no argument"):
        plyvel.repair_db(path, nonsense=1)
    plyvel.destroy_db(path)
    assert os.listdir(os.path.dirname(path)) == []


def test_writes_continue_after_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("a small file system cannot be mounted")
    try:
        (disk / "other").write_bytes(bytes(16 << 20))
        with plyvel.DB(str(disk / "db"), create_if_missing=True) as db:
            with pytest.raises(plyvel.IOError, match="No space left"):
                for n in range(1000):
                    db.put(b"%d" % n, os.urandom(64 << 10))
            with pytest.raises(plyvel.IOError, match="No space left"):
                db.put(b"refused", os.urandom(64 << 10))
            (disk / "other").unlink()
            with db.write_batch() as batch:
                batch.put(b"accepted", b"value")
            assert db.get(b"accepted") == b"value" and db.get(b"refused") is None
    finally:
        subprocess.run(["umount", disk], check=True)


def test_concurrent_use_of_an_iterator_raises_and_does_not_crash(db):
    with db.write_batch() as batch:
        for n in range(20_000):
            batch.put(b"%05d" % n, b"x")
    iterator, seen = db.iterator(include_value=False), []

    def walk():
        while True:
            try:
                seen.append(next(iterator))
            except StopIteration:
                return
            except RuntimeError as error:
                assert "borrowed" in str(error)

    threads = [threading.Thread(target=walk) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(seen) == len(set(seen)) == 20_000
