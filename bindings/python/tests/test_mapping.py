"""Tests of the methods of Python's mappings."""

import collections.abc
import gc
import importlib.metadata
import threading
import weakref

import pytest

import terracedb


@pytest.fixture
def db():
    with terracedb.open_in_memory() as db:
        yield db


@pytest.fixture
def abc(db):
    db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    return db


def test_a_store_is_a_mutable_mapping(abc):
    assert isinstance(abc, collections.abc.MutableMapping) and isinstance(abc, terracedb.Db)
    with abc.snapshot() as snapshot:
        assert isinstance(snapshot, collections.abc.Mapping)
        assert not isinstance(snapshot, collections.abc.MutableMapping)
        abc.clear()
        assert len(snapshot) == 3 and dict(snapshot) == {b"a": b"1", b"b": b"2", b"c": b"3"} and snapshot
    assert abc.update.__doc__ and weakref.ref(abc)() is abc
    assert terracedb.__version__ == importlib.metadata.version("terracedb")


def test_length_and_truth(db):
    assert len(db) == 0 and not db
    for n in range(70_000):  # more than are counted between two looks for interrupts
        db[b"%05d" % n] = b""
    assert len(db) == 70_000 and db
    assert len(db.keys()) == len(db.values()) == len(db.items()) == 70_000
    assert len(db.keys(b"00010", b"00020")) == 10 and len(db.values(prefix=b"0001", reverse=True)) == 10
    db.clear()
    assert len(db) == 0 and not db and len(db.keys(prefix=b"0")) == 0


def test_pop(abc):
    assert abc.pop(b"a") == b"1" and b"a" not in abc
    assert abc.pop(b"a", None) is None
    with pytest.raises(KeyError):
        abc.pop(b"a")
    assert abc.popitem() == (b"b", b"2") and abc.popitem() == (b"c", b"3")
    with pytest.raises(KeyError):
        abc.popitem()


def test_setdefault(abc):
    assert abc.setdefault(b"a", b"9") == b"1" and abc.setdefault(b"d", b"4") == b"4"
    assert abc[b"a"] == b"1" and abc[b"d"] == b"4"
    with pytest.raises(TypeError, match="NoneType"):
        abc.setdefault(b"e")
    assert b"e" not in abc


def test_an_update_is_one_batch(db):
    class HasKeys:
        def keys(self):
            return [b"k"]

        def __getitem__(self, key):
            return b"v" + key

    db.update([(b"a", b"1"), (bytearray(b"a"), memoryview(b"2"))])
    db.update(HasKeys())
    db.update(db.snapshot())
    db.update()
    assert dict(db) == {b"a": b"2", b"k": b"vk"}
    for wrong in ({b"x": b"1", b"y": 2}, {b"x": b"1", "y": b"2"}, [(b"x", b"1"), (b"y",)]):
        with pytest.raises((TypeError, ValueError)):
            db.update(wrong)
    with pytest.raises(TypeError, match="must be bytes.* not str"):
        db.update({b"x": b"1"}, y=b"2")
    assert len(db) == 2 and b"x" not in db
    before = db.last_sequence
    db.update({b"%d" % n: b"" for n in range(10)})
    assert db.last_sequence == before + 10


def test_clear_keeps_nothing(db):
    db[b""] = b"empty key"
    db[b"\xff" * 20] = b"last key"
    db.clear()
    db.clear()
    assert list(db) == []


def test_views_are_live_sets(abc):
    keys, values, items = abc.keys(), abc.values(), abc.items()
    assert isinstance(keys, collections.abc.KeysView) and isinstance(items, collections.abc.ItemsView)
    assert isinstance(values, collections.abc.ValuesView)
    abc[b"d"] = b"4"
    del abc[b"a"]
    assert list(keys) == [b"b", b"c", b"d"] and list(reversed(keys)) == [b"d", b"c", b"b"]
    assert keys == {b"b", b"c", b"d"} and keys & {b"c", b"x"} == {b"c"} and keys - {b"c"} == {b"b", b"d"}
    assert keys | {b"x"} == {b"b", b"c", b"d", b"x"} and keys ^ {b"b"} == {b"c", b"d"}
    assert keys >= {b"b"} and keys < {b"b", b"c", b"d", b"e"} and keys.isdisjoint({b"a"})
    assert {b"x", b"c"} & keys == {b"c"}
    assert b"b" in keys and b"a" not in keys
    assert b"2" in values and b"1" not in values
    assert (b"b", b"2") in items and (b"b", b"3") not in items and (b"a", b"1") not in items
    assert items == {(b"b", b"2"), (b"c", b"3"), (b"d", b"4")} and dict(items) == dict(abc)
    with pytest.raises(TypeError):
        next(keys)
    with pytest.raises(TypeError, match="int"):
        3 in keys


def test_views_of_ranges(abc):
    bound = bytearray(b"b")
    view = abc.keys(bound, b"c")
    bound[:] = b"a"  # the view has a copy
    assert list(view) == [b"b"] and b"b" in view and b"a" not in view and b"c" not in view
    assert bytearray(b"b") in view and memoryview(b"b") in view
    assert (b"c", b"3") in abc.items(prefix=b"c") and (b"a", b"1") not in abc.items(prefix=b"c")
    assert list(reversed(abc.keys(b"b", reverse=True))) == [b"b", b"c"]
    assert abc.keys(b"b") & abc.keys(stop=b"c") == {b"b"}
    assert repr(abc.keys(b"b", reverse=True)) == '<keys of <terracedb.Db "in memory", open>: start=b\'b\', reverse=True>'
    for wrong in (lambda: abc.keys("b"), lambda: abc.values(stop=1), lambda: abc.items(prefix="x")):
        with pytest.raises(TypeError, match="must be bytes.* not (str|int)"):
            wrong()


def test_equality_compares_contents(abc):
    assert abc == {b"a": b"1", b"b": b"2", b"c": b"3"} and {b"a": b"1", b"b": b"2", b"c": b"3"} == abc
    for other in ({b"a": b"1", b"b": b"2"}, {b"a": b"1", b"b": b"2", b"c": b"x"}, {b"a": b"1", b"b": b"2", b"d": b"3"}, {}):
        assert abc != other
    assert abc != {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"} and abc != None and abc != 3  # noqa: E711
    with terracedb.open_in_memory() as other:
        assert abc != other
        other.update(abc)
        assert abc == other and abc == other.snapshot()
        other[b"d"] = b""
        assert abc != other and other != abc
    with pytest.raises(TypeError, match="unhashable"):
        hash(abc)


def test_the_type_named_in_errors(db):
    for act in (lambda: db.pop("a"), lambda: db.setdefault("a", b""), lambda: db.update(a=b""), lambda: "a" in db.keys()):
        with pytest.raises(TypeError, match="not str"):
            act()


def test_iterators_that_outlive_their_store(tmp_path):
    for _ in range(3):
        db = terracedb.open(tmp_path / "store", wal_size_limit="1MiB")
        db.update({b"%d" % n: b"x" * 100 for n in range(1000)})
        iterators = [iter(db.keys()), iter(db.items(reverse=True)), iter(db.snapshot().values()), db.updates_since(db.last_sequence - 9)]
        [next(iterator) for iterator in iterators]
        snapshot = db.snapshot()
        db.close()
        for iterator in iterators:
            with pytest.raises(terracedb.ClosedError):
                next(iterator)
        with pytest.raises(terracedb.ClosedError):
            len(snapshot)
    db = terracedb.open(tmp_path / "store")
    iterator = iter(db.items())
    del db
    gc.collect()
    assert next(iterator)  # an iterator keeps its store
    del iterator
    gc.collect()
    terracedb.open(tmp_path / "store").close()  # as no object uses the store any more, it is unlocked


def test_close_during_iteration_in_other_threads(tmp_path):
    db = terracedb.open(tmp_path / "store")
    db.update({b"%05d" % n: b"x" * 100 for n in range(20_000)})
    seen, raised = [], []

    def walk():
        try:
            while True:
                for pair in db.items():
                    seen.append(pair)
        except terracedb.ClosedError as error:
            raised.append(error)

    threads = [threading.Thread(target=walk) for _ in range(3)]
    [thread.start() for thread in threads]
    while len(seen) < 1000:
        pass
    db.close()
    [thread.join() for thread in threads]
    assert len(raised) == 3
