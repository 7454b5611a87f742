"""Tests of column families."""

import gc
import threading

import pytest

import terracedb


@pytest.fixture
def db():
    with terracedb.open_in_memory() as db:
        yield db


@pytest.fixture
def users(db):
    return db.create_column_family("users")


def test_families_are_created_opened_and_dropped(tmp_path):
    with terracedb.open(tmp_path / "store") as db:
        users = db.create_column_family("users")
        users[b"1"] = b"ann"
        assert users.name == "users" and "users" in repr(users)
        with pytest.raises(terracedb.InvalidError):
            db.create_column_family("users")
        with pytest.raises(terracedb.MissingError):
            db.column_family("absent")
        with pytest.raises(TypeError):
            db.column_family(b"users")
        db.column_family("default")[b"1"] = b"default"
        assert db[b"1"] == b"default"
    with terracedb.open(tmp_path / "store") as db:
        assert db.column_families() == ["default", "users"]
        assert db.column_family("users")[b"1"] == b"ann"
        with pytest.raises(terracedb.InvalidError):
            db.drop_column_family("default")
        db.drop_column_family("users")
        with pytest.raises(terracedb.MissingError):
            db.drop_column_family("users")
        assert db.column_families() == ["default"]
        assert not db.create_column_family("users")


def test_a_family_is_a_mapping(db, users):
    users.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    assert not db and len(users) == 3 and users
    assert users == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert users.get(b"x", 7) == 7 and users.get_many([b"a", b"x"]) == [b"1", None]
    assert list(users.items(b"b", reverse=True)) == [(b"c", b"3"), (b"b", b"2")]
    assert len(users.keys(prefix=b"a")) == 1 and b"b" in users.keys() and b"b" not in db
    del users[b"a"]
    with pytest.raises(KeyError):
        del users[b"a"]
    assert users.pop(b"b") == b"2" and users.setdefault(b"d", b"4") == b"4"
    users.put(b"e", b"5", sync=True)
    users.delete(b"d", sync=True)
    users.delete_range(b"a", b"d")
    assert list(users) == [b"e"] and list(reversed(users)) == [b"e"]
    users.clear()
    assert list(users) == []
    with pytest.raises(TypeError):
        users["text"] = b""


def test_tables_of_a_family(db, users, tmp_path):
    users.update({b"a": b"1", b"b": b"2"})
    [table] = users.export(tmp_path, b"b")
    others = db.create_column_family("others")
    assert others.ingest([table]) == 1
    assert dict(others) == {b"b": b"2"}
    users.compact()
    assert users.approximate_size(b"", b"z") > 0 and not db


def test_batches_and_snapshots_cover_families(db, users):
    with db.batch(sync=True) as batch:
        batch[b"count"] = b"1"
        batch.put(b"1", b"ann", family=users)
        batch.put(b"2", b"bob", family=users)
        batch.delete(b"2", family=users)
    assert dict(db) == {b"count": b"1"} and dict(users) == {b"1": b"ann"}
    assert len(batch) == 0
    with pytest.raises(ZeroDivisionError), db.batch() as batch:
        batch.delete(b"1", family=users)
        1 / 0
    with db.snapshot() as before:
        batch = terracedb.WriteBatch()
        batch.delete(b"1", family=users)
        batch.put(b"count", b"0")
        with pytest.raises(terracedb.UnsupportedError):
            batch.operations()
        users.write(batch, log=False)
        assert dict(users) == {} and db[b"count"] == b"0"
        seen = before.column_family(users)
        assert dict(seen) == {b"1": b"ann"} and dict(before) == {b"count": b"1"}
        assert seen.get_many([b"1"]) == [b"ann"] and seen.sequence == before.sequence
    with pytest.raises(terracedb.ClosedError):
        seen[b"1"]
    batch = terracedb.WriteBatch()
    batch.delete_range(b"a", b"b", family=users)
    with pytest.raises(terracedb.UnsupportedError):
        db.write(batch)
    with terracedb.open_in_memory() as other:
        batch = terracedb.WriteBatch()
        batch.put(b"1", b"", family=users)
        with pytest.raises(terracedb.InvalidError):
            other.write(batch)


def acts(users):
    return [
        lambda: users[b"1"],
        lambda: users.get_many([b"1"]),
        lambda: list(users),
        lambda: len(users),
        lambda: bool(users),
        lambda: users.put(b"1", b""),
        lambda: users.delete(b"1"),
        lambda: users.delete_range(b"1", b"2"),
        lambda: users.compact(),
        lambda: users.approximate_size(b"1", b"2"),
        lambda: users.export("/tmp"),
    ]


def test_a_dropped_family_raises_invalid_error(db, users):
    users[b"1"] = b"ann"
    iterator = iter(users)
    batch = terracedb.WriteBatch()
    batch.put(b"1", b"", family=users)
    db.drop_column_family("users")
    assert list(iterator) == [b"1"]
    for act in [*acts(users), lambda: db.write(batch)]:
        with pytest.raises(terracedb.InvalidError):
            act()


def test_families_of_a_closed_store_raise_closed_error(tmp_path):
    path = tmp_path / "store"
    db = terracedb.open(path)
    users = db.create_column_family("users")
    users[b"1"] = b"ann"
    iterator, batch = iter(users), terracedb.WriteBatch()
    db.close()
    late = [
        lambda: next(iterator),
        lambda: batch.put(b"1", b"", family=users),
        lambda: db.column_families(),
        lambda: db.column_family("users"),
        lambda: db.drop_column_family("users"),
    ]
    for act in acts(users) + late:
        with pytest.raises(terracedb.ClosedError):
            act()
    with terracedb.open(path) as db:  # the handles do not lock the directory
        assert db.column_family("users")[b"1"] == b"ann"


def test_a_family_keeps_the_store_open(tmp_path):
    users = terracedb.open(tmp_path / "store").create_column_family("users")
    gc.collect()
    users[b"1"] = b"ann"
    assert users[b"1"] == b"ann"
    del users
    gc.collect()
    terracedb.open(tmp_path / "store").close()


def test_threads_use_one_family(users):
    def fill(part):
        for number in range(200):
            users[b"%d/%03d" % (part, number)] = b""
            assert b"%d/%03d" % (part, number) in users

    threads = [threading.Thread(target=fill, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(users) == 800
