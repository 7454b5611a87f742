//! Stores and places for the tests.
use std::{collections::BTreeMap, sync::Arc};
use terrace::{Db, DurabilityMode, Options};
use terrace_backup::{Backups, DirectoryTarget, Source};
use terrace_sim::Rng;
use terrace_storage::{Location, Memory, placement::OpenMode};
use terrace_vfs::FileSystem;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A checkpoint in memory, with the pairs that it contains.
pub struct Checkpoint {
    pub fs: Arc<dyn FileSystem>,
    pub sequence: u64,
    pub pairs: Pairs,
}

pub fn options() -> Options {
    let mut options = Options::preset("leveldb").unwrap();
    options.set("write_buffer_size", "64KiB").unwrap();
    options.set("target_file_size", "64KiB").unwrap();
    options
}

/// Returns `bytes` bytes that do not compress.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|n| Rng::of(seed, n).next_u64().to_le_bytes()).collect()
}

/// Returns all pairs of the store in `fs`.
pub fn pairs_in(fs: &Arc<dyn FileSystem>) -> terrace::Result<Pairs> {
    let (options, setup) = (options(), options().setup());
    let tracker = options.durability.tracker(&**fs, &setup)?;
    let storage = terrace_storage::open_files(fs.clone(), OpenMode::Write, tracker, &setup)?;
    pairs_of(&Db::open_on(storage, options)?)
}

/// Returns all pairs of `db`.
pub fn pairs_of(db: &Db) -> terrace::Result<Pairs> {
    db.scan(Default::default()).collect()
}

/// Makes a history of a store: a checkpoint after each of `count` rounds of writes. Most of the
/// SSTables of a checkpoint are in the next one too.
pub fn checkpoints(count: u64) -> Vec<Checkpoint> {
    let db = Db::open_in_memory(options()).unwrap();
    let made = |round: u64| {
        for n in 0..40u64 {
            let key = format!("{:03}", (round * 25 + n) % 150);
            db.put(&key, noise(round * 100 + n, 400)).unwrap();
        }
        db.delete(format!("{:03}", round * 7 % 150)).unwrap();
        let memory = Memory::new();
        let place = Location::Memory(memory.clone());
        let copy = terrace_storage::open(&place, OpenMode::Create, DurabilityMode::Sync, &options().setup()).unwrap();
        let sequence = db.checkpoint_on(&*copy).unwrap().sequence;
        Checkpoint { fs: Arc::new(memory), sequence, pairs: pairs_of(&db).unwrap() }
    };
    (1..=count).map(made).collect()
}

impl Checkpoint {
    pub fn source(&self) -> Source {
        Source::on(self.fs.clone())
    }
}

pub fn backups_in(fs: &Arc<dyn FileSystem>) -> terrace_backup::Result<Backups> {
    Backups::on(DirectoryTarget::on(fs.clone()))
}

/// Returns the pairs of backup `id` after a restore.
pub fn restored(backups: &Backups, id: u64) -> Pairs {
    let fs: Arc<dyn FileSystem> = Arc::new(Memory::new());
    backups.restore_into(id, &*fs, |_| ()).unwrap_or_else(|error| panic!("backup {id}: {error}"));
    pairs_in(&fs).unwrap_or_else(|error| panic!("backup {id}: {error}"))
}
