"""Tests of the package terracedb."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

import terracedb
import terracedb.plyvel


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def db():
    with terracedb.open_in_memory() as db:
        yield db


def filled(db, count=1000):
    """Writes the keys 0000 to count - 1."""
    batch = terracedb.WriteBatch()
    for i in range(count):
        batch[b"%04d" % i] = b"value %d" % i
    db.write(batch)
    return [(b"%04d" % i, b"value %d" % i) for i in range(count)]


def test_a_mapping(db):
    db[b"a"] = b"1"
    db.put(bytearray(b"b"), bytearray(b""), sync=True)
    db[b""] = b"\0\xff"
    assert (db[b"a"], db[b"b"], db[b""]) == (b"1", b"", b"\0\xff")
    assert b"a" in db and b"c" not in db
    assert db.get(b"c") is None and db.get(b"c", 7) == 7 and db.get(b"a", 7) == b"1"
    assert db.get_many([b"c", b"a", b"a"]) == [None, b"1", b"1"]
    del db[b"a"]
    db.delete(b"a")
    assert list(db) == [b"", b"b"]
    with pytest.raises(KeyError) as caught:
        db[b"a"]
    assert caught.value.args == (b"a",)
    with pytest.raises(KeyError):
        del db[b"a"]


@pytest.mark.parametrize("wrong", ["text", 1, None, [97, 98], (97,), {97}])
def test_only_bytes_are_keys(db, wrong):
    batch = terracedb.WriteBatch()
    acts = [
        lambda: db[wrong],
        lambda: db.get(wrong),
        lambda: db.get_many([b"", wrong]),
        lambda: db.put(wrong, b""),
        lambda: db.put(b"", wrong),
        lambda: db.delete(wrong),
        lambda: db.delete_range(b"", wrong),
        lambda: wrong in db,
        lambda: batch.put(wrong, b""),
        lambda: batch.put(b"", wrong),
        lambda: batch.delete(wrong),
    ]
    for act in acts:
        with pytest.raises(TypeError, match="must be bytes, bytearray or memoryview, not " + type(wrong).__name__):
            act()
    if sys.version_info >= (3, 11):  # older exceptions have no notes
        with pytest.raises(TypeError, match="'value'"):
            db.put(b"", wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="must be bytes"):
            list(db.keys(prefix=wrong))
    for keys in ("text", 1, b"ab"):
        with pytest.raises(TypeError):
            db.get_many(keys)
    assert list(db) == [] and len(batch) == 0


def test_bytes_like_objects_are_accepted(db):
    view = memoryview(b"-key-")[1:4]
    db[view] = bytearray(b"value")
    assert db[b"key"] == db[bytearray(b"key")] == db[memoryview(bytearray(b"key"))] == b"value"
    assert db.get_many(key for key in (b"key", view, bytearray(b"x"))) == [b"value", b"value", None]
    db.put(memoryview(b"abcdef")[::2], memoryview(b"every other"))
    assert list(db.keys(memoryview(b"a"), bytearray(b"b"))) == [b"ace"]
    assert list(db.keys(prefix=memoryview(b"k"))) == [b"key"]


def test_paths_have_the_types_of_the_standard_library(tmp_path):
    class Path:
        def __fspath__(self):
            return os.fsencode(tmp_path / "d")

    odd = os.fsencode(tmp_path) + b"/\xff"
    for path in (str(tmp_path / "a"), os.fsencode(tmp_path / "b"), tmp_path / "c", Path(), odd, os.fsdecode(odd)):
        with terracedb.open(path) as db:
            db[b"a"] = b"1"
            db.checkpoint(os.fsencode(path) + b"-copy" if path is not odd else tmp_path / "odd")
            if path == str(tmp_path / "a"):
                tables = db.export(os.fsencode(tmp_path))
                assert db.ingest([os.fsencode(table) for table in tables]) == 1
        assert os.path.isdir(path)
        terracedb.destroy(path)
        assert not os.path.exists(path)
    for wrong in (1, None, [b"a"]):
        with pytest.raises(TypeError, match="str, bytes or os.PathLike"):
            terracedb.open(wrong)


@pytest.mark.parametrize("flushed", [False, True])
def test_ranges_match_slices_of_the_sorted_keys(db, flushed):
    pairs = filled(db)
    if flushed:
        db.flush()
    keys = [key for key, _ in pairs]
    assert list(db.items()) == pairs
    assert list(db.keys()) == keys
    assert list(db.values()) == [value for _, value in pairs]
    assert list(db.items(reverse=True)) == pairs[::-1]
    assert list(db.items(b"0010", b"0020")) == pairs[10:20]
    assert list(db.items(stop=b"0020", reverse=True)) == pairs[19::-1]
    assert list(db.keys(b"0995")) == keys[995:]
    assert list(db.keys(prefix=b"09")) == keys[900:]
    assert list(db.keys(b"0050", b"0910", prefix=b"09", reverse=True)) == keys[909:899:-1]
    assert list(db.items(b"5", b"4")) == []


def test_an_iterator_sees_the_store_as_of_its_creation(db):
    filled(db)
    walk = iter(db.keys())
    assert next(walk) == b"0000"
    db[b"0000x"] = b"new"
    db.delete(b"0999")
    rest = list(walk)
    assert rest[0] == b"0001" and rest[-1] == b"0999" and len(rest) == 999
    assert list(walk) == [] and next(walk, "end") == "end"


def test_large_values_are_complete(db):
    pairs = [(b"%d" % i, bytes([i]) * 300_000) for i in range(8)]
    for key, value in pairs:
        db[key] = value
    assert list(db.items()) == pairs


def test_snapshots(db):
    db[b"a"] = b"old"
    with db.snapshot() as snapshot:
        assert snapshot.sequence == db.last_sequence == 1
        db[b"a"] = b"new"
        db[b"b"] = b"1"
        db.compact()
        assert snapshot[b"a"] == b"old" and snapshot.get(b"b", 3) == 3 and b"b" not in snapshot
        assert list(snapshot) == [b"a"] and list(snapshot.values()) == [b"old"]
        assert list(snapshot.items(b"a", b"c", prefix=b"a", reverse=True)) == [(b"a", b"old")]
        with pytest.raises(KeyError):
            snapshot[b"b"]
    with pytest.raises(terracedb.ClosedError):
        snapshot[b"a"]


def test_batches_are_atomic(db):
    with db.batch(sync=True) as batch:
        batch[b"a"] = b"1"
        batch.put(b"b", b"2")
        del batch[b"a"]
        assert len(batch) == 3 and b"b" not in db
    assert list(db.items()) == [(b"b", b"2")]
    with pytest.raises(RuntimeError, match="half way"):
        with db.batch() as batch:
            batch[b"c"] = b"3"
            raise RuntimeError("half way")
    assert b"c" not in db
    batch = terracedb.WriteBatch()
    batch.delete(b"b")
    batch.clear()
    assert len(batch) == 0
    batch.put(b"d", b"4")
    assert db.write(batch) == db.write(batch, sync=True) - 1  # a batch can be written again
    with terracedb.WriteBatch() as batch:  # of no store
        batch.put(b"e", b"5")
    assert len(batch) == 1
    db.write(batch)
    assert db[b"e"] == b"5"


def test_a_store_persists(path):
    with terracedb.open(path, error_if_exists=True) as db:
        assert not db.closed and repr(db) == f'<terracedb.Db "{path}", open>'
        pairs = filled(db)
        db.flush()
        assert db.property("leveldb.num-files-at-level0") is not None and db.property("nonsense") is None
        db.resume()
        assert db.approximate_size(b"0", b"1") > 0
        db.wait_durable()
        assert db.durable_sequence == db.last_sequence == 1000
    assert db.closed and repr(db).endswith("closed>")
    with terracedb.open(str(path), create=False) as db:
        assert list(db.items()) == pairs
    with terracedb.open(path, read_only=True) as db, terracedb.open(path, read_only=True) as other:
        assert db[b"0001"] == other[b"0001"]
        with pytest.raises(terracedb.ReadOnlyError):
            db[b"a"] = b""
    terracedb.destroy(path)
    terracedb.destroy(path)
    assert not path.exists()


def test_options_by_name(path):
    options = dict(write_buffer_size=1 << 20, block_cache_size="1MiB", compression="none", paranoid_checks=True)
    with terracedb.open(path, preset="default", **options) as db:
        filled(db)
    for wrong in (dict(nonsense=1), dict(write_buffer_size="much"), dict(write_buffer_size=1), dict(preset="nonsense")):
        with pytest.raises(terracedb.InvalidError, match=list(wrong.values())[0] if "preset" in wrong else list(wrong)[0]):
            terracedb.open(path, **wrong)


def test_errors_name_the_problem(path):
    for named in (dict(create=False), dict(create_if_missing=False), dict(create=False, create_if_missing=False)):
        with pytest.raises(terracedb.MissingError, match=re.escape(str(path))):
            terracedb.open(path, **named)
        assert not path.exists()
    with pytest.raises(terracedb.InvalidError, match="contradict"):
        terracedb.open(path, create=True, create_if_missing=False)
    assert not path.exists()
    terracedb.open(path, create_if_missing=True).close()
    with terracedb.open(path) as db:
        with pytest.raises(terracedb.InUseError, match="in use"):
            terracedb.open(path)
        with pytest.raises(terracedb.InUseError):
            terracedb.destroy(path)
        with pytest.raises(terracedb.InvalidError, match="99"):
            db.wait_durable(99)
    with pytest.raises(terracedb.InvalidError, match="error_if_exists"):
        terracedb.open(path, error_if_exists=True)
    with pytest.raises(OSError):
        terracedb.open("/proc/not/a/place")
    (path / "CURRENT").write_text("nonsense")
    with pytest.raises(terracedb.CorruptError, match="CURRENT"):
        terracedb.open(path)
    assert issubclass(terracedb.NoSpaceError, terracedb.StorageError)


def test_an_empty_range_is_no_op_in_a_batch(db):
    batch = terracedb.WriteBatch()
    batch.put(b"k", b"v")
    batch.delete_range(b"a", b"a")
    batch.delete_range(b"z", b"a")
    db.write(batch)
    db.delete_range(b"a", b"a")
    assert list(db.items()) == [(b"k", b"v")]
    batch.delete_range(b"a", b"z")
    with pytest.raises(terracedb.UnsupportedError, match="range_tombstones"):
        db.write(batch)


def test_a_repair_without_a_store_creates_nothing(path, tmp_path):
    path.mkdir()
    with pytest.raises(terracedb.MissingError, match="nothing to repair"):
        terracedb.repair(path, tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists() and not list(path.iterdir())


def test_a_damaged_store_is_repaired(path, tmp_path):
    with terracedb.open(path, compression="none") as db:
        pairs = filled(db)
        db.flush()
    (table,) = path.glob("*.ldb")
    damaged = bytearray(table.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    table.write_bytes(damaged)
    with terracedb.open(path) as db, pytest.raises(terracedb.CorruptError, match=table.name):
        list(db.items())
    count, lost = terracedb.repair(path, tmp_path / "fresh")
    (file, offset, length, reason) = lost[0]
    assert len(lost) == 1 and file.endswith(table.name) and offset <= len(damaged) // 2 < offset + length and reason
    assert table.read_bytes() == damaged
    with terracedb.open(tmp_path / "fresh") as db:
        saved = list(db.items())
    # Only the pairs of one damaged block of 4 KiB are lost.
    assert 700 < len(saved) == count < 1000 and set(saved) < set(pairs)
    with pytest.raises(terracedb.InvalidError, match="not empty"):
        terracedb.repair(path, tmp_path / "fresh")


def test_a_closed_store_releases_everything(path):
    db = terracedb.open(path)
    filled(db)
    walk, fresh, snapshot, batch, view = iter(db.items()), iter(db.items()), db.snapshot(), db.batch(), db.keys()
    short, old, done = iter(db.keys(prefix=b"001")), iter(snapshot.keys(prefix=b"001")), iter(db.keys(prefix=b"x"))
    [next(begun) for begun in (walk, short, old)]
    assert list(done) == []
    db.close()
    db.close()
    with terracedb.open(path):  # the open succeeds although an iterator of the closed store is alive
        pass
    acts = [
        lambda: db[b"a"],
        lambda: db.put(b"a", b""),
        lambda: db.items(),
        lambda: list(view),
        lambda: len(view),
        lambda: b"a" in view,
        lambda: len(db),
        lambda: bool(db),
        lambda: db.pop(b"a"),
        lambda: db.update({}),
        lambda: db.clear(),
        lambda: db.snapshot(),
        lambda: db.last_sequence,
        lambda: snapshot[b"a"],
        lambda: list(snapshot),
        lambda: len(snapshot),
        lambda: snapshot.items(),
        lambda: snapshot.get(b"a"),
        lambda: b"a" in snapshot,
        lambda: next(walk),
        lambda: next(walk),
        lambda: next(fresh),
        lambda: next(short),  # fails although its pairs were fetched before the store was closed
        lambda: next(old),
        lambda: db.batch(),
        lambda: db.write(terracedb.WriteBatch()),
        lambda: db.get_many([b"a"]),
        lambda: batch.__exit__(None, None, None),
    ]
    for act in acts:
        with pytest.raises(terracedb.ClosedError, match="closed"):
            act()
    assert list(done) == []


def test_other_threads_run_while_one_waits_for_storage(path):
    """Uses a long compaction, since a slow sync cannot be produced reliably."""
    with terracedb.open(path, compression="zstd", zstd_level=19) as db:
        for i in range(40):
            db[b"%d" % i] = os.urandom(1000) * 100
        done = threading.Event()
        worker = threading.Thread(target=lambda: (db.compact(), done.set()))
        turns = 0
        worker.start()
        while not done.is_set():
            turns += 1
            time.sleep(0)
        worker.join()
        assert turns > 10, "this thread stood still while the other one compacted"


def test_many_threads(db):
    def work(n):
        for i in range(200):
            db[b"%d/%03d" % (n, i)] = b"%d" % i
            assert db[b"%d/%03d" % (n, i)] == b"%d" % i
        assert len(list(db.keys(prefix=b"%d/" % n))) == 200

    failed = []
    threads = [threading.Thread(target=lambda n=n: work(n)) for n in range(4)]
    threading.excepthook, before = lambda args: failed.append(args.exc_value), threading.excepthook
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    threading.excepthook = before
    assert not failed and len(list(db)) == 800


def test_a_replica_follows_the_history(path):
    with terracedb.open(path, wal_size_limit="1MiB", range_tombstones=True) as db, terracedb.open_in_memory(range_tombstones=True) as replica:
        db[b"a"], db[b"b"], db[b"c"] = b"1", b"2", b"3"
        with db.batch() as batch:
            batch.delete(b"a")
            batch.delete_range(b"b", b"c")
        updates = list(db.updates_since(0))
        assert updates[-1][1].operations() == [("delete", b"a", None), ("delete_range", b"b", b"c")]
        for sequence, batch in updates:
            replica.write(batch)
        assert sequence == db.last_sequence and list(replica.items()) == [(b"c", b"3")]
        behind = terracedb.WriteBatch()
        behind[b"d"] = b"4"
        last = db.write(behind, log=False, sync=True)
        assert db.durable_sequence >= last and db[b"d"] == b"4"
        with pytest.raises(terracedb.Error, match="no longer have sequence"):
            list(db.updates_since(sequence))
        held = db.updates_since(last)
    with pytest.raises(terracedb.ClosedError):
        next(held)


def test_export_ingest_and_checkpoint(path, tmp_path):
    with terracedb.open(path) as db, terracedb.open(tmp_path / "other") as other:
        for n in range(100):
            db[b"%03d" % n] = b"v"
        (tmp_path / "tables").mkdir()
        tables = db.export(tmp_path / "tables", b"010", b"020")
        assert other.ingest(tables) == 10 and list(other)[0] == b"010"
        db.delete_range(b"000", b"050")
        assert len(list(db)) == 50
        assert db.checkpoint(tmp_path / "copy") == db.last_sequence
        said = db.statistics()
        assert said["last_sequence"] == db.last_sequence and said["flushes"]["count"] >= 1 and len(said["levels"]) == 7
        assert said["bytes_written"]["wal"] > 0 and said["syncs"]["manifest"] > 0
    with terracedb.open(tmp_path / "copy", create=False) as copy:
        assert len(list(copy)) == 50


def test_backups(path, tmp_path):
    backups = terracedb.Backups(tmp_path / "backups")
    assert backups.list() == []
    with terracedb.open(path) as db:
        for n in range(3):
            db[b"key"] = b"%d" % n
            assert backups.create(db) == n + 1
        listed = backups.list()
        assert [backup["sequence"] for backup in listed] == [1, 2, 3] and listed[0]["created"] > 1_700_000_000
        assert listed[2]["added_bytes"] < listed[2]["bytes"]
    assert backups.verify() == [] and backups.restore(tmp_path / "two", 2) == 2
    with terracedb.open(tmp_path / "two", create=False) as restored:
        assert restored[b"key"] == b"1"
    assert backups.purge(1) == [1, 2]
    with pytest.raises(terracedb.MissingError, match="has no backup 2; it has only backup 3"):
        backups.restore(tmp_path / "again", 2)
    with pytest.raises(terracedb.InvalidError, match="not empty"):
        backups.restore(tmp_path / "two")
    for name in (tmp_path / "backups").glob("*.object"):
        name.write_bytes(b"rot")
    assert {id for id, _, _ in backups.verify()} == {3}
    with pytest.raises(terracedb.CorruptError, match="SHA-256"):
        backups.restore(tmp_path / "again")
    assert not (tmp_path / "again").exists()
    with pytest.raises(terracedb.InvalidError, match="no file BACKUPS"):
        terracedb.Backups(path).list()
    backups.remove(3)
    with terracedb.open_in_memory() as memory:
        memory[b"key"] = b"v"
        with pytest.raises(terracedb.InvalidError, match="scratch"):
            backups.create(memory)
        assert backups.create(memory, scratch=tmp_path / "scratch") == 1 and not (tmp_path / "scratch").exists()


def test_concurrent_use_of_an_iterator_or_a_batch_raises_and_does_not_crash(path):
    with terracedb.open(path) as db:
        wanted = {b"%05d" % n for n in range(20000)}
        for key in wanted:
            db[key] = b"v" * 100
        pairs, seen, refused = iter(db.keys()), [], []

        def walk():
            while True:
                try:
                    seen.append(next(pairs))
                except StopIteration:
                    return
                except RuntimeError as error:
                    refused.append(error)

        batch = terracedb.WriteBatch()

        def write(n):
            for i in range(300):
                try:
                    batch.put(b"x%d/%d" % (n, i), b"")
                    db.write(batch)
                except RuntimeError as error:
                    refused.append(error)

        for work in (walk, walk, walk), (lambda: write(1), lambda: write(2)):
            threads = [threading.Thread(target=one) for one in work]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        assert len(seen) == len(wanted) and set(seen) == wanted
        assert all("borrowed" in str(error) for error in refused)


def test_writes_survive_the_process(path):
    code = "import sys, os, terracedb; db = terracedb.open(sys.argv[1]); db[b'a'] = b'1'; os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with terracedb.open(path) as db:
        assert db[b"a"] == b"1"


@pytest.mark.parametrize("page", ["README.md", "../../docs/python.md"])
def test_examples_of_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (pathlib.Path(__file__).parent.parent / page).read_text()
    names = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(code, page, "exec"), names)
    assert (tmp_path / "cities").is_dir()


@pytest.mark.parametrize("module", [terracedb, terracedb.plyvel])
def test_the_stubs_match_the_package(module):
    name = "__init__" if module is terracedb else module.__name__.rpartition(".")[2]
    stub = ast.parse((pathlib.Path(terracedb.__file__).parent / f"{name}.pyi").read_text()).body
    classes = {node.name: node for node in stub if isinstance(node, ast.ClassDef)}

    def methods(name):
        body = classes[name].body if name in classes else ()
        bases = (base.id for base in classes[name].bases if isinstance(base, ast.Name)) if name in classes else ()
        return {node.name for node in body if isinstance(node, ast.FunctionDef)}.union(*map(methods, bases))

    said = {name for name in classes if not name.startswith("_")}
    for name in said:
        real = getattr(module, name)
        mixins = set(dir(OSError)).union(*(dir(base) for base in real.__mro__ if base.__module__ == "collections.abc"))
        there, named = ({word for word in words if not word.startswith("_")} for words in (dir(real), methods(name)))
        assert there - mixins == named - mixins, name
    said |= {node.name for node in stub if isinstance(node, ast.FunctionDef)}
    said |= {node.target.id for node in stub if isinstance(node, ast.AnnAssign)}
    said |= {alias.asname for node in stub if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname == alias.name}
    assert said == set(module.__all__)
