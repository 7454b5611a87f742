//! One interface for Terrace and LevelDB. With it a test can open a directory in turn with both
//! engines, and can start child processes of the test binary that run either engine. `interop.rs`
//! and `leveldb_costs.rs` include this module, and each uses a part of it.
use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};
use terrace::{Db, Options, ReadOptions, WriteBatch, WriteOptions};
use terrace_peers::leveldb::{self, Library};

/// The entries of a store, in the order of a scan.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The engine that opens a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Terrace with the preset `leveldb`.
    Ours,
    /// The real LevelDB.
    Theirs,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Ours => Side::Theirs,
            Side::Theirs => Side::Ours,
        }
    }
}

/// The options that the tests vary for both engines.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub snappy: bool,
    /// The size of a memtable in bytes. LevelDB accepts 64 KiB and more.
    pub write_buffer_size: usize,
    /// The number of Bloom filter bits per key; 0 for no filter.
    pub bloom_bits: u32,
    /// Whether all damage is an error, even at the end of a WAL.
    pub paranoid: bool,
    /// Whether Terrace writes its WAL through a memory mapping. LevelDB must read such a WAL as any
    /// other.
    pub mapped_log: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { snappy: true, write_buffer_size: 4 << 20, bloom_bits: 0, paranoid: false, mapped_log: false }
    }
}

impl Layout {
    /// Returns Terrace's options for this layout.
    pub fn ours(&self) -> Options {
        let mut options = Options::preset("leveldb").expect("a preset of that name exists");
        let settings = [
            ("compression", if self.snappy { "snappy" } else { "none" }.to_string()),
            ("write_buffer_size", self.write_buffer_size.to_string()),
            ("bloom_bits", self.bloom_bits.to_string()),
            ("paranoid_checks", self.paranoid.to_string()),
            ("wal_write_mode", if self.mapped_log { "map" } else { "write" }.to_string()),
        ];
        for (name, value) in settings {
            options.set(name, &value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
        }
        options
    }

    /// Returns LevelDB's options for this layout.
    pub fn theirs(&self) -> leveldb::OpenOptions {
        leveldb::OpenOptions {
            create_if_missing: true,
            paranoid_checks: self.paranoid,
            compression: if self.snappy { leveldb::Compression::Snappy } else { leveldb::Compression::None },
            write_buffer_size: self.write_buffer_size,
            bloom_bits: (self.bloom_bits > 0).then_some(self.bloom_bits),
            ..Default::default()
        }
    }
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

/// An open store of either engine. Any error of an operation fails the test.
pub enum Store {
    Ours(Db),
    Theirs(leveldb::Store),
}

impl Store {
    /// Opens or creates the store in `dir`.
    pub fn open(side: Side, dir: &Path, layout: &Layout) -> Store {
        let store = Store::try_open(side, dir, layout);
        store.unwrap_or_else(|e| panic!("{side:?} cannot open {} as {layout:?}: {e}", dir.display()))
    }

    /// Opens or creates the store as [`Store::open`] does. If the engine refuses to open it,
    /// returns the text of the error.
    pub fn try_open(side: Side, dir: &Path, layout: &Layout) -> Result<Store, String> {
        match side {
            Side::Ours => Db::open(dir, layout.ours()).map(Store::Ours).map_err(|e| e.to_string()),
            Side::Theirs => {
                let library = Library::load().map_err(|e| e.to_string())?;
                let store = library.open(dir, &layout.theirs()).map_err(|e| e.to_string())?;
                Ok(Store::Theirs(store))
            }
        }
    }

    /// Applies `ops` as one batch.
    pub fn apply(&self, ops: &[Op], sync: bool) {
        match self {
            Store::Ours(db) => {
                let mut batch = WriteBatch::new();
                for op in ops {
                    match op {
                        Op::Put(key, value) => batch.put(key, value),
                        Op::Delete(key) => batch.delete(key),
                    };
                }
                db.write(batch, WriteOptions { sync, ..WriteOptions::default() }).expect("write");
            }
            Store::Theirs(store) => {
                let mut batch = store.batch();
                for op in ops {
                    match op {
                        Op::Put(key, value) => batch.put(key, value),
                        Op::Delete(key) => batch.delete(key),
                    };
                }
                store.write(&mut batch, sync).expect("write");
            }
        }
    }

    /// Writes one entry without a sync.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        match self {
            Store::Ours(db) => db.put(key, value).expect("put"),
            Store::Theirs(store) => store.put(key, value, false).expect("put"),
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self {
            Store::Ours(db) => db.get(key).expect("get"),
            Store::Theirs(store) => store.get(key).expect("get"),
        }
    }

    /// Returns all entries in key order.
    pub fn forward(&self) -> Pairs {
        match self {
            Store::Ours(db) => {
                db.scan(ReadOptions::new().verify_checksums(true)).collect::<Result<_, _>>().expect("scan")
            }
            Store::Theirs(store) => store.forward().expect("scan"),
        }
    }

    /// Returns all entries in reverse key order.
    pub fn backward(&self) -> Pairs {
        match self {
            Store::Ours(db) => {
                db.scan_reverse(ReadOptions::new().verify_checksums(true)).collect::<Result<_, _>>().expect("scan")
            }
            Store::Theirs(store) => store.backward().expect("scan"),
        }
    }

    /// Flushes the memtable and compacts all tables.
    pub fn compact(&self) {
        match self {
            Store::Ours(db) => db.compact_range(None, None).expect("compact"),
            Store::Theirs(store) => store.compact_range(None, None),
        }
    }

    /// Closes the store cleanly.
    pub fn close(self) {
        match self {
            Store::Ours(db) => db.close().expect("close"),
            Store::Theirs(..) => {} // dropping it closes the store
        }
    }
}

/// A small random generator with a seed (SplitMix64). It produces the same numbers on every
/// machine and in every version.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns true once in `n` calls on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

/// Returns the command that runs the test named `role` of this binary as a child process. The test
/// finds its arguments in the environment with [`child_argument`]; in a usual run it finds none
/// and does nothing. The child should exit when its standard input closes, so that it never
/// outlives its parent.
pub fn child(wrapper: &[&str], role: &str, arguments: &[(&str, String)]) -> Command {
    let own = env::current_exe().expect("the path of this test binary");
    let mut words = wrapper.iter().map(std::ffi::OsString::from).chain([own.into_os_string()]);
    let mut command = Command::new(words.next().expect("the binary itself at least"));
    command.args(words).args(["--exact", role, "--nocapture", "--test-threads=1"]);
    command.env("TERRACE_TEST_ROLE", role).envs(arguments.iter().map(|(k, v)| (format!("TERRACE_TEST_{k}"), v)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Returns whether [`child`] started this process as `role`.
pub fn is_child(role: &str) -> bool {
    env::var("TERRACE_TEST_ROLE").is_ok_and(|wanted| wanted == role)
}

/// Returns an argument that was passed to [`child`].
pub fn child_argument(name: &str) -> String {
    env::var(format!("TERRACE_TEST_{name}")).unwrap_or_else(|_| panic!("the parent gives {name}"))
}

/// Returns the name of an engine, for an argument of a child process.
pub fn side_name(side: Side) -> String {
    format!("{side:?}")
}

/// Returns the engine with this name; see [`side_name`].
pub fn side_named(name: &str) -> Side {
    if name == side_name(Side::Ours) { Side::Ours } else { Side::Theirs }
}
