"""Tests of comparators in Python, with terracedb.plyvel."""

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from terracedb import plyvel


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "db")


def reversed_order(a, b):
    return (a < b) - (a > b)


def numbers_in_order(a, b):
    """An order that has no place for keys that are not numbers."""
    return int(a) - int(b)


def test_comparators(path):
    named = dict(comparator=reversed_order, comparator_name=b"reversed")
    with plyvel.DB(path, create_if_missing=True, write_buffer_size=1 << 16, **named) as db:
        for n in range(3000):
            db.put(b"%04d" % n, b"x" * 50)
        db.compact_range()
        assert list(db.iterator(start=b"0012", stop=b"0009", include_value=False)) == [b"0012", b"0011", b"0010"]
        kwargs = dict(start=b"0012", stop=b"0010", include_start=False, include_stop=True, include_value=False)
        assert list(db.iterator(**kwargs)) == [b"0011", b"0010"]
        assert list(db.iterator(reverse=True, **kwargs)) == [b"0010", b"0011"]
        raw = db.raw_iterator()
        raw.seek(b"0005x")
        assert raw.key() == b"0005"
    with plyvel.DB(path, **named) as db:
        assert len(list(db)) == 3000
    with pytest.raises(plyvel.Error, match="^Invalid argument: .*reversed"):
        plyvel.DB(path)
    plyvel.repair_db(path, **named)
    with plyvel.DB(path, **named) as db:
        assert len(list(db)) == 3000
    plyvel.destroy_db(path)


def test_a_key_that_the_comparator_refuses(path):
    with plyvel.DB(path, create_if_missing=True, comparator=numbers_in_order, comparator_name=b"numbers") as db:
        for n in (3, 20, 100):
            db.put(b"%d" % n, b"")
        batch = db.write_batch()
        acts = [
            lambda: db.put(b"x", b""), lambda: db.delete(b"x"), lambda: db.get(b"x"), lambda: batch.put(b"x", b""),
            lambda: list(db.iterator(start=b"x")), lambda: list(db.iterator(stop=b"x", include_stop=True)),
            lambda: db.raw_iterator().seek(b"x"),
        ]  # fmt: skip
        for act in acts:
            with pytest.raises(ValueError, match="invalid literal for int"):
                act()
        db.put(b"1000", b"")  # the store is unharmed
        assert list(db.iterator(include_value=False)) == [b"3", b"20", b"100", b"1000"]
        db.compact_range()


def test_a_comparator_that_fails_stops_writes_before_a_wrong_order(path):
    broken = False

    def compare(a, b):
        if broken and a != b:
            raise ZeroDivisionError("on purpose")
        return (a > b) - (a < b)

    named = dict(comparator=compare, comparator_name=b"sometimes")
    db = plyvel.DB(path, create_if_missing=True, **named)
    for n in range(100):
        db.put(b"%03d" % n, b"v")
    broken = True
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        db.put(b"0505", b"v")
    broken = False
    with pytest.raises(plyvel.IOError, match="writes have stopped") as caught:
        db.put(b"0506", b"v")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert db.get(b"050") == b"v"
    with pytest.raises(plyvel.IOError, match="writes have stopped"):
        db.close()
    assert db.closed
    with plyvel.DB(path, **named) as db:
        keys = list(db.iterator(include_value=False))
        assert keys == sorted(keys) and set(keys) - {b"0505"} == {b"%03d" % n for n in range(100)}


@pytest.mark.parametrize("answer", [None, "1", float("nan")])
def test_an_answer_that_is_no_number(path, answer):
    with plyvel.DB(path, create_if_missing=True, comparator=lambda a, b: answer, comparator_name=b"odd") as db:
        with pytest.raises((TypeError, ValueError)):
            db.put(b"a", b"")
            db.put(b"b", b"")


def test_answers_may_be_any_number(path):
    with plyvel.DB(path, create_if_missing=True, comparator=lambda a, b: (int(a) - int(b)) * 1e-9, comparator_name=b"f") as db:
        for key in (b"2", b"10", b"1"):
            db.put(key, b"")
        assert list(db.iterator(include_value=False)) == [b"1", b"2", b"10"]
    plyvel.destroy_db(path)
    with plyvel.DB(path, create_if_missing=True, comparator=lambda a, b: (int(a) - int(b)) << 70, comparator_name=b"f") as db:
        for key in (b"2", b"10", b"1"):
            db.put(key, b"")
        assert list(db.iterator(include_value=False)) == [b"1", b"2", b"10"]


def test_an_interrupt_during_a_comparison_changes_nothing(path):
    interrupts = iter([True])

    def compare(a, b):
        if a != b and b"007" in (a, b) and next(interrupts, False):
            os.kill(os.getpid(), signal.SIGINT)
        return (a > b) - (a < b)

    with plyvel.DB(path, create_if_missing=True, comparator=compare, comparator_name=b"c") as db:
        with pytest.raises(KeyboardInterrupt):
            for n in range(100):
                db.put(b"%03d" % n, b"")
        db.put(b"100", b"")
        keys = list(db.iterator(include_value=False))
        assert keys[-1] == b"100" and len(keys) >= 8


def test_comparators_in_many_threads(path):
    """No thread waits for the interpreter while it holds a lock that another thread with the interpreter needs."""
    named = dict(comparator=reversed_order, comparator_name=b"reversed")
    db = plyvel.DB(path, create_if_missing=True, write_buffer_size=1 << 16, **named)

    def work(n):
        for i in range(400):
            db.put(b"%d-%04d" % (n, i), b"x" * 300)
            if i % 50 == 0:
                snapshot = db.snapshot()
                list(snapshot.iterator(prefix=None, start=b"%d-%04d" % (n, i)))
                iterator = db.iterator()
                next(iterator)
                del snapshot, iterator
                db.get_property(b"leveldb.stats")
                db.compact_range()
                db.closed

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not any(thread.is_alive() for thread in threads)
    assert len(list(db)) == 1200
    db.close()


def test_the_last_reference_may_end_a_database_at_work(path):
    """The end waits for background threads, which call the comparator."""
    for _ in range(5):
        db = plyvel.DB(path, create_if_missing=True, write_buffer_size=1 << 16, comparator=reversed_order, comparator_name=b"r")
        for n in range(2000):
            db.put(b"%04d" % n, b"x" * 300)
        del db
        gc.collect()


@pytest.mark.parametrize("end", ["", "os._exit(0)", "raise SystemExit", "del db", "del db, iterator", "threading.Thread(target=work).start()"])
def test_the_interpreter_ends_with_an_open_database(path, end):
    code = f"""
import os, sys, threading
from terracedb import plyvel
def compare(a, b): return (a > b) - (a < b)
def work():
    for n in range(2000): db.put(b"%04d" % n, b"x" * 200)
db = plyvel.DB(sys.argv[1], create_if_missing=True, write_buffer_size=1 << 16, comparator=compare, comparator_name=b"c")
work()
iterator = db.iterator()
next(iterator)
{end}
"""
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, timeout=60, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    with plyvel.DB(path, comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"c") as db:
        assert len(list(db)) == 2000


def test_the_interpreter_closes_databases_with_a_comparator_before_it_ends(path):
    code = """
import atexit, sys
atexit.register(lambda: print(db.closed))  # runs after those that are registered later
from terracedb import plyvel
db = plyvel.DB(sys.argv[1], create_if_missing=True, comparator=lambda a, b: len(a) - len(b), comparator_name=b"c")
"""
    assert subprocess.run([sys.executable, "-c", code, path], capture_output=True, timeout=60).stdout == b"True\n"


@pytest.mark.parametrize(
    "kept, use", [("db.iterator()", "next(kept)"), ("db.snapshot()", "kept.get(b'a')"), ("db.write_batch()", "kept.clear()")]
)
def test_the_interpreter_closes_databases_that_only_another_object_uses(path, kept, use):
    code = f"""
import atexit, sys
@atexit.register  # runs after those that are registered later
def ended():
    try:
        {use}
    except RuntimeError as error:
        print("closed" in str(error))
from terracedb import plyvel
db = plyvel.DB(sys.argv[1], create_if_missing=True, comparator=lambda a, b: len(a) - len(b), comparator_name=b"c")
db.put(b"a", b"")
kept = {kept}
del db
"""
    assert subprocess.run([sys.executable, "-c", code, path], capture_output=True, timeout=60).stdout == b"True\n"
