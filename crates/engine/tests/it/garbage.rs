//! Space comes back: what was deleted or overwritten takes a bounded part of the space of what is live.
use crate::common::kit;
use kit::{Place, options};
use terrace::{Db, ReadOptions};
use terrace_sim::Rng;

const KEYS: usize = 500;
const VALUE_BYTES: usize = 1000;

fn write_all(db: &Db, rng: &mut Rng) {
    for n in 0..KEYS {
        let value: Vec<u8> = (0..VALUE_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        db.put(format!("key{n:05}"), value).expect("put");
    }
}

/// Bytes of tables, and of values that lie elsewhere.
fn taken(db: &Db) -> u64 {
    let tables: u64 = db.layout().iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
    tables + db.statistics().value_log.bytes
}

/// Of each key one version for the snapshot, and one for everyone else.
#[test]
fn a_snapshot_holds_one_version_of_a_key() {
    for more in [&[][..], &[("tables", "bundled")], &[("whole_blocks", "on")], &[("range_deletes", "on")]] {
        let changes = [kit::TIGHT, more].concat();
        let db = Place::any().open(&options(&changes), false).expect("open");
        let mut rng = Rng::new(1);
        write_all(&db, &mut rng);
        let snapshot = db.snapshot();
        let before = kit::contents(&db).expect("read");
        for round in 0..10 {
            if round % 3 == 2 {
                db.delete_range("key00100", "key00400", Default::default()).expect("delete a range");
            }
            write_all(&db, &mut rng);
        }
        db.flush().expect("flush");
        db.compact_range(None, None).expect("compact");
        db.wait_idle().expect("wait");
        let (taken, live) = (taken(&db), (KEYS * (VALUE_BYTES + 8)) as u64);
        assert!(taken * 10 <= live * 23, "{more:?}: {taken} bytes for {live}");
        assert!(taken > live * 2, "{more:?}: {taken} bytes: the snapshot holds nothing");
        let seen = kit::scan(&db, ReadOptions::new().snapshot(&snapshot)).expect("read");
        assert!(seen == before, "the snapshot sees something else");
    }
}
