"""Tests of transactions."""

import threading
import time

import pytest

import terracedb


@pytest.fixture
def db():
    with terracedb.open_in_memory() as db:
        yield db


def test_a_block_commits_or_rolls_back(db):
    with db.transaction() as t:
        t[b"a"] = b"1"
        assert t[b"a"] == b"1" and b"a" not in db
    assert db[b"a"] == b"1" and t.ended
    with pytest.raises(ZeroDivisionError), db.transaction() as t:
        t[b"a"] = b"2"
        1 / 0
    assert db[b"a"] == b"1"
    with db.transaction() as t:
        t.put(b"a", b"3")
        sequence = t.commit(sync=True)
    assert db[b"a"] == b"3" and sequence == db.last_sequence
    with db.transaction(sync=True) as t:
        t.put(b"a", b"4")
        t.rollback()
        t.rollback()
    assert db[b"a"] == b"3"
    for act in [t.commit, t.set_savepoint, lambda: t[b"a"], lambda: t.put(b"a", b""), lambda: list(t), lambda: t.keys()]:
        with pytest.raises(terracedb.InvalidError, match="committed or rolled back"):
            act()


def test_a_transaction_is_a_mapping(db):
    db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    with db.transaction() as t:
        del t[b"b"]
        with pytest.raises(KeyError):
            del t[b"b"]
        t.update({b"d": b"4"})
        assert dict(t) == {b"a": b"1", b"c": b"3", b"d": b"4"} and len(t) == 3 and t
        assert list(t.items(b"b", reverse=True)) == [(b"d", b"4"), (b"c", b"3")]
        assert list(t.keys(prefix=b"a")) == [b"a"] and len(t.values(b"c", b"d")) == 1
        assert t.get(b"b", 7) == 7 and t.get_for_update(b"c") == b"3" and t.get_for_update(b"x", 7) == 7
        iterator = iter(t)
        assert next(iterator) == b"a"
        t[b"b"] = b"new"
        assert list(iterator) == [b"c", b"d"]  # as at its creation
        t.delete_range(b"a", b"c")
        t.delete(b"absent")
        assert list(t) == [b"c", b"d"]
        t.clear()
        assert not t
        with pytest.raises(TypeError):
            t["text"] = b""
    assert dict(db) == {}


def test_families_and_savepoints(db):
    users = db.create_column_family("users")
    with db.transaction() as t:
        in_users = t.column_family(users)
        in_users[b"1"] = b"ann"
        t[b"count"] = b"1"
        t.set_savepoint()
        in_users.delete_range(b"0", b"9")
        t[b"count"] = b"0"
        assert list(in_users) == [] and in_users.get_for_update(b"1") is None
        t.rollback_to_savepoint()
        assert dict(in_users) == {b"1": b"ann"} and dict(t) == {b"count": b"1"}
        with pytest.raises(terracedb.InvalidError):
            in_users.rollback_to_savepoint()
    assert dict(users) == {b"1": b"ann"} and dict(db) == {b"count": b"1"}
    with terracedb.open_in_memory() as other, db.transaction() as t:
        with pytest.raises(terracedb.Error):
            t.column_family(other.create_column_family("users"))[b"1"] = b""
        with pytest.raises(TypeError):
            t.column_family("users")


def test_a_conflict_is_raised_by_the_commit(db):
    for isolation, conflicts in [("snapshot", False), ("serializable", True)]:
        t = db.transaction(isolation=isolation)
        t[b"own"] = t.get(b"read", b"")
        db[b"read"] = b"changed"
        if conflicts:
            with pytest.raises(terracedb.ConflictError) as caught:
                t.commit()
            assert isinstance(caught.value, terracedb.RetryableError) and t.ended
        else:
            t.commit()
    t = db.transaction()
    pairs = iter(t.items())  # read, and not ended when the transaction commits
    next(pairs)
    t[b"x"] = b""
    db[b"own"] = b"changed"
    with pytest.raises(terracedb.ConflictError):
        t.commit()
    with pytest.raises(terracedb.InvalidError):
        next(pairs)


def test_options_are_checked(db):
    for options in [{"isolation": "none"}, {"locking": "yes"}, {"lock_timeout": -1}, {"lock_timeout": float("nan")}]:
        with pytest.raises(ValueError):
            db.transaction(**options)
    with pytest.raises(TypeError):
        db.transaction(nonsense=1)


def test_transact_repeats(db):
    def increment(t):
        number = int(t.get(b"count", b"0")) + 1
        time.sleep(0)
        t[b"count"] = b"%d" % number
        return number

    def run():
        for _ in range(50):
            db.transact(increment, isolation="snapshot", attempts=10_000)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db[b"count"] == b"200" and db.transact(increment) == 201
    calls = []

    def conflicts(t):
        calls.append(1)
        increment(t)
        db[b"count"] = b"0"

    with pytest.raises(terracedb.ConflictError):
        db.transact(conflicts, attempts=3)
    assert len(calls) == 3
    with pytest.raises(ZeroDivisionError):
        db.transact(lambda t: 1 / 0)


def test_a_thread_waits_for_a_lock_and_others_run(db):
    first = db.transaction(locking="pessimistic")
    first[b"a"] = b"1"
    second = db.transaction(locking="pessimistic", lock_timeout=30)
    waiting, got = threading.Event(), []

    def wait():
        waiting.set()
        got.append(second.get_for_update(b"a"))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    time.sleep(0.05)
    assert not got  # this thread runs, and the other one waits
    first.rollback()
    thread.join()
    assert got == [None]
    second.rollback()


def test_timeouts_and_deadlocks(db):
    first = db.transaction(locking="pessimistic", lock_timeout=0.01)
    second = db.transaction(locking="pessimistic", lock_timeout=30)
    second[b"b"] = b""
    with pytest.raises(terracedb.LockTimeoutError):
        first[b"b"] = b""
    first.rollback()
    first = db.transaction(locking="pessimistic", lock_timeout=30)
    first[b"a"] = b""
    outcomes = []

    def take(t, key):
        try:
            t[key] = b""
            outcomes.append("lock")
        except terracedb.DeadlockError:
            outcomes.append("deadlock")
        t.rollback()

    threads = [threading.Thread(target=take, args=pair) for pair in [(first, b"b"), (second, b"a")]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["deadlock", "lock"]


def test_a_dropped_transaction_releases_its_locks(db):
    t = db.transaction(locking="pessimistic")
    t[b"a"] = b""
    del t
    with db.transaction(locking="pessimistic", lock_timeout=0.01) as t:
        t[b"a"] = b"1"
    assert db[b"a"] == b"1"


def test_a_transaction_ends_with_its_store(tmp_path):
    db = terracedb.open(tmp_path / "store")
    users = db.create_column_family("users")
    db[b"a"] = b"1"
    t = db.transaction()
    in_users, iterator = t.column_family(users), iter(t)
    t[b"b"] = b""
    db.close()
    for act in [t.commit, lambda: t[b"a"], lambda: in_users.put(b"a", b""), lambda: next(iterator), db.transaction]:
        with pytest.raises(terracedb.ClosedError):
            act()
    t.rollback()
    with pytest.raises(terracedb.ClosedError), terracedb.open(tmp_path / "store") as db:
        with db.transaction() as t:
            t[b"b"] = b""
            db.close()  # the end of the block cannot commit
    with terracedb.open(tmp_path / "store") as db:
        assert dict(db) == {b"a": b"1"}
