"""Expected types of the package; read by a type checker, not run."""

from typing import Optional

import terracedb


def uses(path: str) -> None:
    with terracedb.open(path, preset="leveldb", write_buffer_size=1 << 20) as db:
        value: Optional[bytes] = db.get(b"a")
        number: int | bytes = db.get(b"a", 7)
        there: bytes = db[b"a"]
        many: list[Optional[bytes]] = db.get_many([b"a", bytearray(b"b")])
        keys: list[bytes] = list(db.keys(b"a", prefix=b"b", reverse=True))
        for key, also in db.items():
            there = key + also
        with db.snapshot() as snapshot, db.batch(sync=True) as batch:
            batch[b"a"] = there
            there = snapshot[b"a"]
        sequence: int = db.write(terracedb.WriteBatch())
        db.wait_durable(sequence)
        db.put("text", b"")  # type: ignore[arg-type]
        db.get_many([1])  # type: ignore[list-item]
    print(value, number, many, keys)
