//! Which transaction of ext4's journal a file waits for, and how far the journal is: asked of the kernel itself, by a program
//! that it runs (`program.rs`). The exact form of what `/proc/fs/jbd2` says in general.
//!
//! Loading the program takes the capabilities BPF and PERFMON. Root can [pin] it once, in a `bpf` file system; then
//! anybody may read it, and sees his own files alone.
use nix::sys::{
    stat::{fstat, major, minor},
    statfs::{BPF_FS_MAGIC, fstatfs},
};
use std::{
    fs::{self, File, Permissions},
    io::{self, ErrorKind, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

mod btf;
#[allow(unsafe_code, reason = "system calls that no library makes")]
mod kernel;
mod program;

use btf::Btf;
use program::{RECORD_BYTES, Types, assemble};

/// Where [`pin`] puts the iterator for everybody, unless told otherwise.
pub const PINNED: &str = "/sys/fs/bpf/terrace-commits";

/// Set in a journal's flags when it was aborted.
const ABORTED: u64 = 2;

/// Asks the kernel about files of this process.
pub struct CommitIterator(Source);

enum Source {
    /// Loaded by this process.
    Own(OwnedFd),
    /// Pinned by root.
    Pinned(PathBuf),
}

/// What the kernel says of one open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The transaction of the inode's last change.
    pub transaction: u32,
    /// The newest transaction that is committed, down to the device's medium. Numbers wrap.
    pub committed: u32,
}

impl CommitIterator {
    /// The one pinned at `pinned`, or else one of this process's own; the error says why there is neither.
    pub fn open(pinned: &Path) -> Result<CommitIterator, String> {
        match fs::symlink_metadata(pinned) {
            Ok(_) => {
                let source = Source::Pinned(pinned.into());
                open_pinned(pinned).map_err(|e| format!("{}: {e}", pinned.display()))?;
                Ok(CommitIterator(source))
            }
            Err(_) => Ok(CommitIterator(Source::Own(load(Some(std::process::id()))?))),
        }
    }

    /// Where `file`, on ext4, stands. Fails once its journal was aborted.
    pub fn standing(&self, file: BorrowedFd<'_>) -> io::Result<Standing> {
        let facts = fstat(file)?;
        let device = (major(facts.st_dev) as u32) << 20 | minor(facts.st_dev) as u32;
        let records = self.read()?;
        let (records, _) = records.as_chunks::<RECORD_BYTES>();
        let number = |record: &[u8; RECORD_BYTES], at: usize| {
            u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        let long = |record: &[u8; RECORD_BYTES], at: usize| {
            let (low, high) = (u64::from(number(record, at)), u64::from(number(record, at + 4)));
            if cfg!(target_endian = "little") { low | high << 32 } else { high | low << 32 }
        };
        let wanted = (file.as_raw_fd() as u32, device, facts.st_ino);
        let is_wanted =
            |record: &&[u8; RECORD_BYTES]| (number(record, 12), number(record, 8), long(record, 0)) == wanted;
        let found = records.iter().find(is_wanted);
        let record =
            found.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the kernel does not tell of this file"))?;
        if long(record, 24) & ABORTED != 0 {
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "the journal was aborted"));
        }
        Ok(Standing { transaction: number(record, 16), committed: number(record, 20) })
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut records = Vec::new();
        let mut file = match &self.0 {
            Source::Own(iterator) => File::from(kernel::run(iterator.as_fd())?),
            Source::Pinned(path) => open_pinned(path)?,
        };
        file.read_to_end(&mut records)?;
        Ok(records)
    }
}

/// Loads an iterator for everybody and names it `path`, which must be in a `bpf` file system. Takes root.
pub fn pin(path: &Path) -> Result<(), String> {
    let iterator = load(None)?;
    let told = |e: io::Error| format!("{}: {e}", path.display());
    kernel::pin(iterator.as_fd(), path).map_err(told)?;
    fs::set_permissions(path, Permissions::from_mode(0o444)).map_err(told)
}

/// Opens a pinned iterator. What anybody but root could have put there is not believed.
fn open_pinned(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let by_root = file.metadata()?.uid() == 0;
    if fstatfs(&file)?.filesystem_type() != BPF_FS_MAGIC || !by_root {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "not an iterator that root has pinned"));
    }
    Ok(file)
}

/// An iterator over the files of process `of`, or of all.
fn load(of: Option<u32>) -> Result<OwnedFd, String> {
    let read =
        |name: &str| fs::read(format!("/sys/kernel/btf/{name}")).map_err(|e| format!("/sys/kernel/btf/{name}: {e}"));
    let kernel = Btf::parse(&read("vmlinux")?)?;
    // What is no part of the kernel proper is a module, with types of its own.
    let module = |name: &str, holds: &str| {
        if kernel.has_struct(holds) { Ok(None) } else { kernel.clone().with(&read(name)?).map(Some) }
    };
    let (ext4, jbd2) = (module("ext4", "ext4_inode_info")?, module("jbd2", "journal_s")?);
    let types =
        Types { kernel: &kernel, ext4: ext4.as_ref().unwrap_or(&kernel), jbd2: jbd2.as_ref().unwrap_or(&kernel) };
    let refused = |e: io::Error| match e.kind() {
        ErrorKind::PermissionDenied => {
            format!("BPF programs take privileges ({e}); `terrace pin`, run by root, lets everybody use one")
        }
        _ => format!("the kernel refuses the BPF program: {e}"),
    };
    let program = kernel::load(&assemble(&types)?, kernel.function("bpf_iter_task_file")?).map_err(refused)?;
    kernel::link(program.as_fd(), of).map_err(refused)
}
