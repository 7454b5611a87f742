//! Tests that count heap allocations. A write must allocate only memtable blocks, a step of a scan
//! must allocate nothing, and a new cursor may allocate a few times per source (memtable or sorted
//! run).
use crate::common::{alone::in_own_process, counting};
use terrace::{Cursor, Db, Options, ReadOptions, WriteBatch, WriteOptions};

/// Runs `work` and returns the count of heap allocations that this thread made during `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = counting::of_thread();
    work();
    counting::of_thread() - before
}

#[test]
fn a_single_write_allocates_only_memtable_blocks() {
    const WRITES: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    for preset in ["leveldb", "default"] {
        let mut options = Options::preset(preset).unwrap();
        options.write_buffer_size = 1 << 30; // no flush during the count
        let db = Db::open(directory.path().join(preset), options).unwrap();
        db.put("the first", "write").unwrap();
        let value = [7; 100];
        let puts = || (0..WRITES).for_each(|n| db.put(n.wrapping_mul(0x9e37_79b9).to_be_bytes(), value).unwrap());
        let deletes = || (0..WRITES).for_each(|n| db.delete(n.to_be_bytes()).unwrap());
        let (puts, deletes) = (allocations(puts), allocations(deletes));
        // Memtable blocks cause fewer than one allocation per 200 writes.
        assert!(puts < WRITES / 200 && deletes < WRITES / 200, "{preset}: {puts} for puts, {deletes} for deletes");
        let batches = allocations(|| {
            for n in 0..1000u64 {
                let mut batch = WriteBatch::new();
                batch.put(n.to_be_bytes(), value).delete("another");
                db.write(batch, WriteOptions::default()).unwrap();
            }
        });
        assert!(batches <= 4 * 1000, "{preset}: {batches} for 1000 batches, which grow as they are filled");
    }
}

const KEYS: u64 = 20_000;
const RUNS: u64 = 3;

/// Makes a store with several sorted runs and a memtable. The first run has all keys, and each
/// other run has a sixth of them. A block is as large as a whole table, so a scan reads few blocks
/// and their allocations hardly affect the count.
fn store() -> Db {
    let mut options = Options::preset("leveldb").unwrap();
    options.block_size = 4 << 20;
    options.write_buffer_size = 64 << 20;
    (
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ) = (100, 200, 300);
    let db = Db::open_in_memory(options).unwrap();
    for run in 0..RUNS {
        for key in (0..KEYS).filter(|key| run == 0 || key % 6 == run) {
            db.put(format!("{key:08}"), vec![run as u8; 50]).unwrap();
        }
        db.flush().unwrap();
    }
    for key in (0..KEYS).step_by(50) {
        db.delete(format!("{key:08}")).unwrap();
    }
    db.wait_idle().unwrap();
    db
}

fn walk(cursor: &mut Cursor, step: impl Fn(&mut Cursor) -> terrace::Result<()>) -> u64 {
    let mut pairs = 0;
    while cursor.valid() {
        pairs += u64::from(cursor.key().len() == 8 && cursor.value().len() == 50);
        step(cursor).unwrap();
    }
    pairs
}

#[test]
fn steps_allocate_nothing_and_new_cursors_little() {
    let db = store();
    let options = || ReadOptions::new().to("99999999");
    let warm = allocations(|| assert!(db.scan(options()).count() > 0));
    assert!(warm > KEYS, "a scan hands out vectors, and they are counted: {warm}");

    let mut cursor = db.cursor(options());
    cursor.seek_to_first().unwrap();
    let mut pairs = 0;
    let forward = allocations(|| pairs = walk(&mut cursor, Cursor::next));
    assert_eq!(pairs, KEYS - KEYS / 50);
    cursor.seek_to_last().unwrap();
    let backward = allocations(|| pairs = walk(&mut cursor, Cursor::prev));
    assert_eq!(pairs, KEYS - KEYS / 50);
    // A scan may allocate a few times, when it reaches the end of a block or of a table. A scan
    // that allocated in every step would make 40,000 allocations.
    assert!(forward < 50 && backward < 50, "{forward} allocations forward, {backward} backward");

    let seeks = 1000;
    let again = allocations(|| {
        for key in 0..seeks {
            cursor.seek(format!("{:08}", key * 7 % KEYS).as_bytes()).unwrap();
        }
    });
    assert!(again <= seeks + 50, "{again} allocations of {seeks} seeks by one cursor, each with a key to format");
    let fresh = allocations(|| {
        for _ in 0..seeks {
            db.cursor(ReadOptions::new()).seek(b"00012345").unwrap();
        }
    });
    // A new cursor makes one allocation for the queue of its merging iterator. For each run it
    // makes two more: one for the index iterator and one for the iterator's current key. Open
    // tables are in the table cache, and the list of sources reuses the memory of the previous
    // cursor.
    let each = 1 + 2 * RUNS;
    assert!(fresh <= seeks * each + 10, "{} allocations for a new cursor and a seek, more than {each}", fresh / seeks);
    println!("{forward} forward, {backward} backward, {again} of {seeks} seeks, {} of a new cursor", fresh / seeks);
}

/// Tests that a cursor needs little memory of its own. All cursors of this test are at entries of
/// the same blocks and share the memory of these blocks.
#[test]
fn an_iterator_is_small() {
    const CURSORS: usize = 1000;
    in_own_process(|| {
        let db = store();
        let bytes_each = || {
            let cursor = || {
                let mut cursor = db.cursor(ReadOptions::new());
                cursor.seek(b"00012345").unwrap();
                cursor
            };
            let _first = cursor();
            let before = counting::live_bytes();
            let cursors: Vec<Cursor> = (0..CURSORS).map(|_| cursor()).collect();
            (counting::live_bytes() - before) / cursors.len()
        };
        let in_runs = bytes_each();
        db.compact_range(None, None).unwrap();
        let settled = bytes_each();
        println!("bytes for each cursor: {in_runs} with {RUNS} sorted runs and a memtable, {settled} with one run");
        assert!(settled <= 2048 && in_runs <= 2560, "{settled}, {in_runs}");
    });
}
