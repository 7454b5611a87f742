//! Determines the cause of each byte that is written to a device with an ext4 file system.
//!
//! ```text
//! ext4 tracepoint: block ─▶ inode ─┐
//!                                  ├─▶ bytes per kind of file, journal, metadata
//! block layer tracepoint: writes ──┘
//! ```
//!
//! ext4's trace shows which blocks ext4 allocates to which inode. The block layer's trace shows
//! which blocks are written. The owner of a block is known from the first trace, or from the
//! layout of the file system at the start. Writes to a block without a known owner are counted as
//! `unknown`. This module does not read the kernel's counter of the device, so that the ledger can
//! compare two independent counts.
use super::{
    entry_files::EntryFiles,
    layout::{FsLayout, Inodes},
    names::{Names, kind_within},
    trace::{Counter, Line, Trace},
    tracefs::Instance,
};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Size of the trace buffer per processor in KiB. It has room for about ten thousand events, which
/// may arrive between two reads.
const BUFFER_KIB: u32 = 2048;
/// Unit of the block layer's trace in bytes.
const SECTOR_BYTES: u64 = 512;
/// The causes of a write, in the order of reports. If a write is the first to a block of a file,
/// its cause is the kind of the file. The other causes are later writes to a block of a file, the
/// file system's own data, files outside the store, and files that were deleted before the ledger
/// looked up their names.
pub const CAUSES: [&str; 12] = [
    "tables",
    "log",
    "value_log",
    "manifest",
    "root",
    "other",
    "rewritten",
    "directory",
    "metadata",
    "journal",
    "elsewhere",
    "unknown",
];
/// Flag in an entry of `owners`, which has one entry per block. The flag states that the block was
/// written since its allocation.
const WRITTEN: u8 = 0x80;

/// Number of bytes by cause. Causes without bytes are omitted.
type Sums = BTreeMap<&'static str, u64>;

/// Bytes written to the device, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Number of bytes by cause. The keys are names in [`CAUSES`].
    pub bytes: BTreeMap<String, u64>,
    /// The `rewritten` bytes (later writes to a block of a file), by the kind of the file.
    pub rewritten: BTreeMap<String, u64>,
}

impl Causes {
    /// Returns the bytes written since the earlier reading `then`.
    pub fn since(&self, then: &Causes) -> Causes {
        let grown = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let grown = now.iter().map(|(name, sum)| (name.clone(), sum - then.get(name).copied().unwrap_or_default()));
            grown.filter(|(_, sum)| *sum > 0).collect()
        };
        Causes { bytes: grown(&self.bytes, &then.bytes), rewritten: grown(&self.rewritten, &then.rewritten) }
    }
}

/// Counts the bytes written to a device by cause, from the kernel's trace, until it is dropped.
pub struct Writes(Trace<WriteCounter>);

struct WriteCounter {
    /// For each block, the kind of its owner as an index into [`CAUSES`]. After the first write to
    /// the block, the flag [`WRITTEN`] is set, too.
    owners: Vec<u8>,
    block_bytes: u64,
    /// Two lookups, which find the kind of a file by its inode: the first one searches the
    /// directory of the store, the second one the whole file system.
    names: [Names; 2],
    pairs: EntryFiles,
    /// The kind of each file by inode, noted when the file was created. ext4 allocates blocks only
    /// at writeback, and the file may be deleted by then.
    made: HashMap<u64, &'static str>,
    causes: Sums,
    rewritten: Sums,
}

impl Writes {
    /// Starts to count the writes to the device `node`. The directory `dir` is in the file system
    /// on that device. The error gives the reason why the writes cannot be counted.
    pub fn start(dir: &Path, node: &Path) -> Result<Writes, String> {
        let name = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let dir = fs::canonicalize(dir).map_err(|error| name(dir, error))?;
        let device = fs::metadata(&dir).map_err(|error| name(&dir, error))?.dev();
        if fs::metadata(node).map_err(|error| name(node, error))?.rdev() != device {
            return Err(format!("{} is not on {}", dir.display(), node.display()));
        }
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        if Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists() {
            return Err(format!("{} is a partition, but the kernel's trace covers only whole disks", node.display()));
        }
        let instance = Instance::create(BUFFER_KIB)?;
        for (system, event) in
            [("ext4", "ext4_allocate_inode"), ("ext4", "ext4_allocate_blocks"), ("block", "block_rq_complete")]
        {
            instance.watch(system, event, device)?;
        }
        // The trace starts before the existing files are listed. It therefore contains the blocks
        // that ext4 allocates during the listing.
        let root = root_of(&dir, device);
        let layout = FsLayout::read(node, existing_files(root, &dir, device))?;
        Ok(Writes(Trace::start(instance, WriteCounter::new(&layout, [Names::new(&dir), Names::around(root, &dir)]))?))
    }

    /// Returns the bytes of all writes that completed before this call, by cause.
    pub fn read(&self) -> Result<Causes, String> {
        let named = |sums: &Sums| sums.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        self.0.read(|counter| Causes { bytes: named(&counter.causes), rewritten: named(&counter.rewritten) })
    }
}

/// Returns the root of the file system that contains `dir`.
fn root_of(dir: &Path, device: u64) -> &Path {
    let is_here = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.dev() == device);
    dir.ancestors().take_while(is_here).last().unwrap_or(dir)
}

/// Lists the inodes of all files in the file system at `root`. For each inode it states the role
/// of its file for the store in `dir`, see [`kind_within`].
fn existing_files(root: &Path, dir: &Path, device: u64) -> Inodes {
    let mut todo = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(path) = todo.pop() {
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if facts.dev() != device {
            continue;
        }
        files.push((facts.ino(), kind_within(dir, &path, facts.is_dir())));
        if facts.is_dir() {
            todo.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    files
}

impl WriteCounter {
    fn new(layout: &FsLayout, names: [Names; 2]) -> WriteCounter {
        let blocks = layout.blocks as usize;
        let mut counter = WriteCounter {
            owners: vec![owner("unknown"); blocks],
            block_bytes: layout.block_bytes,
            names,
            pairs: EntryFiles::default(),
            made: HashMap::new(),
            causes: Sums::new(),
            rewritten: Sums::new(),
        };
        for (range, kind) in &layout.areas {
            let count = range.end().saturating_sub(*range.start()) + 1;
            // An existing file was written before the start, so a write to one of its blocks is a
            // rewrite.
            counter.assign(*range.start(), count, owner(kind) | WRITTEN);
        }
        counter
    }

    fn assign(&mut self, block: u64, count: u64, owner: u8) {
        let end = block.saturating_add(count).min(self.owners.len() as u64) as usize;
        if let Some(given) = self.owners.get_mut(block as usize..end) {
            given.fill(owner);
        }
    }

    /// Handles the event of a new file or directory. The line `dev 7,0 ino 12 dir 2 mode 0100644`
    /// contains the inode of the file, the inode of its parent, and the mode in octal.
    fn made(&mut self, line: &Line<'_>) -> Option<()> {
        const FOLDER: u32 = 0o040_000;
        let (inode, within) = (line.field("ino")?, line.field("dir")?);
        let mode = u32::from_str_radix(line.fields.split_once("mode ")?.1.trim(), 8).ok()?;
        self.pairs.made(inode, within, mode & 0o170_000 == FOLDER, |folder| self.names[0].is_level(folder));
        // The inode number may have belonged to another file, which was deleted.
        self.made.remove(&inode);
        if self.pairs.kind(inode).is_none() {
            let kind = self.named(inode)?;
            self.made.insert(inode, kind);
        }
        Some(())
    }

    /// Returns the kind of a file that still has a name, from the list of all files.
    fn named(&mut self, inode: u64) -> Option<&'static str> {
        let [store, all] = &mut self.names;
        store.kind(inode).or_else(|| all.kind(inode))
    }

    fn allocated(&mut self, line: &Line<'_>) -> Option<()> {
        let (inode, block, count) = (line.field("ino")?, line.field("block")?, line.field("len")?);
        let made = self.pairs.kind(inode).or_else(|| self.made.get(&inode).copied());
        let kind = made.or_else(|| self.named(inode));
        // If the event lacks this flag, the allocated block is a node of the file's extent tree,
        // which is metadata.
        let is_data = line.fields.contains("HINT_DATA");
        let owner = match kind {
            Some("directory") => owner("directory"),
            _ if !is_data => owner("metadata"),
            kind => owner(kind.unwrap_or("unknown")),
        };
        self.assign(block, count, owner);
        Some(())
    }

    /// Handles the event of a completed request. The line `7,0 WSM () 524288 + 8 be,0,3 [0]`
    /// contains the flags, the first sector and the number of sectors.
    fn written(&mut self, line: &Line<'_>) -> Option<()> {
        let mut words = line.fields.split_whitespace().skip(1);
        let flags = words.next()?;
        let sectors = line.field("+")?;
        // Discards (flag D) and flushes (flag F) write no data. The flags of a write contain W, and
        // an F may precede it.
        if !flags.contains('W') || sectors == 0 {
            return Some(());
        }
        let first = line.fields.split(" + ").next()?.split_whitespace().next_back()?.parse::<u64>().ok()?;
        let sectors_per_block = self.block_bytes / SECTOR_BYTES;
        let mut at = first;
        while at < first + sectors {
            let end = (at / sectors_per_block + 1) * sectors_per_block;
            let bytes = (end.min(first + sectors) - at) * SECTOR_BYTES;
            let (cause, kind) = self.cause(at / sectors_per_block);
            *self.causes.entry(cause).or_default() += bytes;
            if cause == "rewritten" {
                *self.rewritten.entry(kind).or_default() += bytes;
            }
            at = end;
        }
        Some(())
    }

    /// Returns the cause of a write to `block` and the kind of its owner, and marks the block as
    /// written.
    fn cause(&mut self, block: u64) -> (&'static str, &'static str) {
        let Some(owner) = self.owners.get_mut(block as usize) else { return ("unknown", "unknown") };
        let again = *owner & WRITTEN != 0;
        *owner |= WRITTEN;
        let kind = CAUSES[usize::from(*owner & !WRITTEN)];
        let is_of_a_file = !matches!(kind, "unknown" | "metadata" | "journal" | "elsewhere" | "directory");
        (if again && is_of_a_file { "rewritten" } else { kind }, kind)
    }
}

impl Counter for WriteCounter {
    fn batch_read(&mut self) {
        self.names.iter_mut().for_each(Names::batch_read);
    }

    fn take(&mut self, line: &str) {
        let Some(line) = Line::parse(line) else { return };
        // An event that lacks an expected field comes from a different kernel version. The event is
        // ignored, and the totals then show that bytes are missing.
        let _understood = match line.event {
            "ext4_allocate_inode" => self.made(&line),
            "ext4_allocate_blocks" => self.allocated(&line),
            "block_rq_complete" => self.written(&line),
            _ => None,
        };
    }
}

/// Returns the index of a kind of file; a file of unknown kind is `other`.
fn owner(kind: &str) -> u8 {
    let index = |kind| CAUSES.iter().position(|known| *known == kind);
    index(kind).or(index("other")).expect("there are others") as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(dir: &Path) -> WriteCounter {
        let areas = vec![(0..=3, "metadata"), (4..=5, "journal"), (9..=9, "tables")];
        WriteCounter::new(&FsLayout { block_bytes: 4096, blocks: 100, areas }, [Names::new(dir), Names::new(dir)])
    }

    fn take(counter: &mut WriteCounter, event: &str) {
        counter.take(&format!("  kworker/1:2-7 [001] d.s1. 3.5: {event}"));
    }

    #[test]
    fn each_block_is_charged_to_its_owner_and_again_as_rewritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("000005.ldb");
        fs::write(&table, "x").expect("written");
        let inode = fs::metadata(&table).expect("there").ino();
        let mut counter = counter(dir.path());
        let given = |inode: u64, flags: &str, block: u64| {
            format!("ext4_allocate_blocks: dev 7,0 ino {inode} flags {flags} len 3 block {block} lblk 0 goal 1")
        };
        take(&mut counter, &given(inode, "HINT_DATA|USE_RESV", 50));
        take(&mut counter, &given(inode, "", 60));
        take(&mut counter, &given(u64::MAX >> 1, "HINT_DATA", 70));
        for request in [
            "7,0 W () 400 + 24 be,0,4 [0]",  // blocks 50..53, the SSTable
            "7,0 FWS () 408 + 8 be,0,4 [0]", // block 51 again
            "7,0 WSM () 480 + 8 be,0,4 [0]", // block 60, its extent tree
            "7,0 WS () 30 + 4 be,0,4 [0]",   // last 2 sectors of block 3, first 2 of block 4
            "7,0 W () 560 + 8 be,0,4 [0]",   // block 70, of a deleted file
            "7,0 W () 792 + 16 be,0,4 [0]",  // block 99, never allocated, and one past the end
            "7,0 W () 72 + 8 be,0,4 [0]",    // block 9, of an existing SSTable
            "7,0 D () 400 + 24 be,0,4 [0]",
            "7,0 RM () 400 + 24 be,0,4 [0]",
            "7,0 FF () 18446744073709551615 + 0 none,0,0 [0]",
        ] {
            take(&mut counter, &format!("block_rq_complete: {request}"));
        }
        let expected: BTreeMap<&str, u64> = [
            ("tables", 3 * 4096),
            ("rewritten", 2 * 4096),
            ("metadata", 4096 + 1024),
            ("journal", 1024),
            ("unknown", 3 * 4096),
        ]
        .into();
        assert_eq!(counter.causes, expected);
        assert_eq!(counter.rewritten, [("tables", 2 * 4096)].into());
    }

    /// Tests that an entry file is recognised by its parent directory. The test deletes a directory
    /// table and the entry file in it before the trace reports their blocks, so the ledger can find
    /// neither by name. Only the directory of the level still exists.
    #[test]
    fn an_entry_file_is_recognised_by_its_parent_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let level = dir.path().join("L0");
        fs::create_dir(&level).expect("made");
        let (level, table, pair) = (fs::metadata(&level).expect("there").ino(), u64::MAX >> 30, 77);
        let mut counter = counter(dir.path());
        take(&mut counter, &format!("ext4_allocate_inode: dev 7,0 ino {table} dir {level} mode 040755"));
        take(&mut counter, &format!("ext4_allocate_inode: dev 7,0 ino {pair} dir {table} mode 0100644"));
        for (inode, block) in [(pair, 50), (table, 60)] {
            let given = format!("dev 7,0 ino {inode} flags HINT_DATA len 1 block {block} lblk 0 goal 1");
            take(&mut counter, &format!("ext4_allocate_blocks: {given}"));
            take(&mut counter, &format!("block_rq_complete: 7,0 W () {} + 8 be,0,4 [0]", block * 8));
        }
        assert_eq!(counter.causes, [("directory", 4096), ("tables", 4096)].into());
    }

    /// Tests that a deleted file keeps the kind that it had when it was created. The file is
    /// deleted after its last write and before the kernel writes its blocks back. Later, the inode
    /// number belongs to another file, whose creation the trace does not contain.
    #[test]
    fn a_deleted_file_keeps_the_kind_of_its_creation() {
        let dir = tempfile::tempdir().expect("a directory");
        let table = dir.path().join("000005.ldb");
        fs::write(&table, "x").expect("written");
        let inode = fs::metadata(&table).expect("there").ino();
        let mut counter = counter(dir.path());
        let made = format!("ext4_allocate_inode: dev 7,0 ino {inode} dir 2 mode 0100644");
        let write = |counter: &mut WriteCounter, block: u64| {
            counter.batch_read();
            let given = format!("dev 7,0 ino {inode} flags HINT_DATA len 1 block {block} lblk 0 goal 1");
            take(counter, &format!("ext4_allocate_blocks: {given}"));
            take(counter, &format!("block_rq_complete: 7,0 W () {} + 8 be,0,4 [0]", block * 8));
        };
        take(&mut counter, &made);
        fs::remove_file(&table).expect("removed");
        write(&mut counter, 50);
        assert_eq!(counter.causes, [("tables", 4096)].into());
        take(&mut counter, &made);
        write(&mut counter, 60);
        assert_eq!(counter.causes, [("tables", 4096), ("unknown", 4096)].into());
    }

    #[test]
    fn every_kind_of_file_has_an_owner() {
        for name in ["CURRENT", "000001.ldb", "000001.log", "000001.blob", "MANIFEST-000001", "LOG"] {
            let kind = super::super::names::kind_of(name.as_ref());
            assert_eq!(CAUSES[usize::from(owner(kind))], kind);
        }
    }
}
