"""Compares terracedb.plyvel with the package plyvel, whose wheel contains LevelDB. Run by `make plyvel`."""

import random

import plyvel as peer
import pytest

from terracedb import plyvel as ours

BOTH = pytest.mark.parametrize("writer, reader", [(ours, peer), (peer, ours)], ids=["to-plyvel", "from-plyvel"])


def reversed_order(a, b):
    return (a < b) - (a > b)


def filled(module, path, write_buffer_size=1 << 16, **options):
    db = module.DB(path, create_if_missing=True, write_buffer_size=write_buffer_size, **options)
    with db.write_batch() as batch:
        for n in range(5000):
            batch.put(b"%05d" % n, b"value %d" % n * 5)
    for n in range(0, 5000, 7):
        db.delete(b"%05d" % n)
    return db


@BOTH
@pytest.mark.parametrize("compacted", [False, True])
def test_each_reads_what_the_other_wrote(tmp_path, writer, reader, compacted):
    db = filled(writer, str(tmp_path / "db"))
    if compacted:
        db.compact_range()
    pairs = list(db)
    db.close()
    with reader.DB(str(tmp_path / "db")) as db:
        assert list(db) == pairs and len(pairs) == 5000 - 715
        db.put(b"00000", b"back")
    with writer.DB(str(tmp_path / "db")) as db:
        assert list(db) == [(b"00000", b"back"), *pairs]


@BOTH
def test_a_comparator_is_the_same_for_both(tmp_path, writer, reader):
    named = dict(comparator=reversed_order, comparator_name=b"reversed")
    # The buffer holds everything: plyvel's close blocks for ever during a compaction that calls a comparator.
    db = filled(writer, str(tmp_path / "db"), write_buffer_size=1 << 22, **named)
    db.compact_range()
    db.put(b"x", b"in the log")
    pairs = list(db)
    db.close()
    with pytest.raises(reader.Error):
        reader.DB(str(tmp_path / "db"))
    with reader.DB(str(tmp_path / "db"), **named) as db:
        assert list(db) == pairs and [key for key, _ in pairs[:2]] == [b"x", b"04999"]


def moves(choose, keys):
    """Returns the arguments of an iterator and moves of it."""
    some = lambda: choose.choice([None, choose.choice(keys), choose.choice(keys) + b"x", b"", b"\xff"])
    options = dict(reverse=choose.random() < 0.5, include_value=choose.random() < 0.5)
    if choose.random() < 0.3:
        options.update(prefix=choose.choice([b"0", b"00", b"01", b"\xff", b""]))
    else:
        options.update(start=some(), stop=some(), include_start=choose.random() < 0.7, include_stop=choose.random() < 0.4)
    kinds = ["next"] * 4 + ["prev"] * 4 + ["seek_to_start", "seek_to_stop"]
    return options, [choose.choice(kinds) for _ in range(choose.randrange(1, 40))]


def differs_in_plyvel(options, keys):
    """Returns whether plyvel's iterator departs from its own documentation for these arguments.

    Backwards from the stop, it omits the last key of the range if that is the start key. It counts an excluded start
    key, or an empty range, as a pair once it has moved past it.
    """
    start, stop = options.get("start", options.get("prefix")), options.get("stop")
    return start is not None and (start in keys or stop is not None and stop <= start)


def played(db, options, names):
    iterator = db.iterator(**options)
    seen = []
    for name in names:
        try:
            seen.append(next(iterator) if name == "next" else getattr(iterator, name)())
        except StopIteration:
            seen.append(StopIteration)
    return seen


def test_iterators_move_alike(tmp_path):
    choose = random.Random(51)
    keys = sorted({b"%02d" % choose.randrange(100) for _ in range(30)} | {b"\xff", b"\xff\xff"})
    stores = [module.DB(str(tmp_path / module.__name__), create_if_missing=True) for module in (ours, peer)]
    for db in stores:
        for key in keys:
            db.put(key, b"value of " + key)
        db.compact_range()
        for key in keys[::3]:
            db.put(key, b"newer value of " + key)
    compared = 0
    for _ in range(6000):
        options, names = moves(choose, keys)
        if not differs_in_plyvel(options, keys):
            mine, theirs = (played(db, options, names) for db in stores)
            assert mine == theirs, (options, names)
            compared += 1
    assert compared > 3000
    [db.close() for db in stores]


def test_raw_iterators_move_alike(tmp_path):
    choose = random.Random(52)
    stores = [filled(module, str(tmp_path / module.__name__)) for module in (ours, peer)]
    iterators = [db.raw_iterator() for db in stores]
    for _ in range(5000):
        name = choose.choice(["seek", "seek_to_first", "seek_to_last"] + ["next", "prev"] * 5)
        given = (b"%05d" % choose.randrange(5100),) if name == "seek" else ()
        states = []
        for module, iterator in zip((ours, peer), iterators):
            try:
                getattr(iterator, name)(*given)
            except module.IteratorInvalidError:
                states.append("not valid")
            else:
                states.append(iterator.item() if iterator.valid() else None)
        assert states[0] == states[1], (name, given)
    [db.close() for db in stores]


def test_the_modules_have_the_same_names():
    versions = {"__version__", "__leveldb_version__"}
    assert set(ours.__all__) == {name for name in dir(peer) if not name.startswith("_")} | versions
    for kind in ("DB", "Error", "IOError", "CorruptionError", "IteratorInvalidError"):
        missing = {name for name in dir(getattr(peer, kind)) if not name.startswith("_")} - set(dir(getattr(ours, kind)))
        assert not missing, kind


def test_the_objects_have_the_same_methods(tmp_path):
    objects = []
    for module in (ours, peer):
        db = module.DB(str(tmp_path / module.__name__), create_if_missing=True)
        db.put(b"a", b"1")
        prefixed = db.prefixed_db(b"a")
        objects.append([db, prefixed, db.snapshot(), prefixed.snapshot(), db.write_batch(), db.iterator(), db.raw_iterator()])
    for mine, theirs in zip(*objects):
        special = {"__iter__", "__next__", "__enter__", "__exit__"}
        public = {name for name in dir(theirs) if not name.startswith("_")} | special & set(dir(theirs))
        assert public <= set(dir(mine)), type(theirs)
