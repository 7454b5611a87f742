"""Expected types of the package; read by a type checker, not run."""

from typing import Iterator, KeysView, MutableMapping, Optional

import terracedb
from terracedb import plyvel


def uses(path: str) -> None:
    with terracedb.open(path, preset="leveldb", write_buffer_size=1 << 20) as db:
        value: Optional[bytes] = db.get(b"a")
        number: int | bytes = db.get(b"a", 7)
        there: bytes = db[b"a"]
        many: list[Optional[bytes]] = db.get_many([b"a", bytearray(b"b")])
        keys: list[bytes] = list(db.keys(b"a", prefix=b"b", reverse=True))
        view: KeysView[bytes] = db.keys()
        pairs: Iterator[tuple[bytes, bytes]] = iter(db.items())
        mapping: MutableMapping[bytes, bytes] = db
        mapping.update({b"a": b"1"})
        both: set[bytes] = db.keys() & {b"a"}
        first: tuple[bytes, bytes] = db.popitem()
        version: str = terracedb.__version__
        for key, also in db.items():
            there = key + also
        with db.snapshot() as snapshot, db.batch(sync=True) as batch:
            batch[b"a"] = there
            there = snapshot[b"a"]
        sequence: int = db.write(terracedb.WriteBatch())
        db.wait_durable(sequence)
        users: terracedb.ColumnFamily = db.create_column_family("users")
        names: list[str] = db.column_families()
        with db.transaction(isolation="snapshot", locking="pessimistic", lock_timeout=2.5) as transaction:
            maybe: Optional[bytes] = transaction.get_for_update(b"a")
            transaction.column_family(users)[b"a"] = maybe or there
        length: int = db.transact(lambda t: len(t[b"a"]), sync=True)
        users.update({b"a": b"1"})
        batch.put(b"a", b"", family=users)
        db.transaction(isolation="none")  # type: ignore[arg-type]
        db.put("text", b"")  # type: ignore[arg-type]
        db.get_many([1])  # type: ignore[list-item]
    print(value, number, many, keys, view, pairs, both, first, version, names, length)


def uses_plyvel(path: str) -> None:
    with plyvel.DB(path, create_if_missing=True, comparator=lambda a, b: len(a) - len(b), comparator_name=b"c") as db:
        there: bytes = db.get(b"a", b"default")
        maybe: Optional[bytes] = db.get(b"a", verify_checksums=True)
        with db.write_batch(transaction=True) as batch, db.snapshot() as snapshot:
            batch.put(b"a", there)
            snapshot.iterator(prefix=b"a", include_value=False).seek(b"b")
        sizes: list[int] = db.approximate_sizes((b"a", b"b"))
        db.prefixed_db(b"p").put(b"a", b"", sync=True)
        db.put("a", b"")  # type: ignore[arg-type]
        plyvel.DB(path, nonsense=1)  # type: ignore[call-arg]
    print(maybe, sizes)
