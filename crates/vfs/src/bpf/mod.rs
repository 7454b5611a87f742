//! Reads the state of files in ext4's journal: the transaction of a file's last change, and the
//! newest committed transaction of the journal.
//!
//! A BPF program in the kernel (`program.rs`) reports these two transactions for each open file.
//! Without this program, the kernel reports only totals for the whole file system
//! (`/proc/fs/jbd2`).
//!
//! To load the program, a process needs the capabilities BPF and PERFMON. Alternatively, root can
//! [pin] the program once in a `bpf` file system. Any process can then read the pinned program's
//! output, but each process sees only its own files.
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

/// Default path at which [`pin`] pins the iterator.
pub const DEFAULT_PIN_PATH: &str = "/sys/fs/bpf/terrace-commits";

/// The bit in a journal's flags that is set when the journal has been aborted.
const ABORTED: u64 = 2;

/// Reads the journal state of this process's files.
pub struct CommitIterator(Source);

enum Source {
    /// An iterator that this process loaded.
    Own(OwnedFd),
    /// An iterator that root pinned at this path.
    Pinned(PathBuf),
}

/// The journal state of one open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionState {
    /// The transaction of the inode's last change.
    pub transaction: u32,
    /// The newest committed transaction of the file system's journal. Its blocks have reached the
    /// medium of the device. Transaction numbers wrap around at 32 bits.
    pub committed: u32,
}

impl CommitIterator {
    /// Opens the BPF iterator that is pinned at the path `pinned`. If no iterator is pinned there,
    /// loads an iterator for this process. The error states why neither is possible.
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

    /// Returns the journal state of `file`, which must be on ext4. Returns an error if the journal
    /// was aborted.
    pub fn transaction_state(&self, file: BorrowedFd<'_>) -> io::Result<TransactionState> {
        let stat = fstat(file)?;
        let device = (major(stat.st_dev) as u32) << 20 | minor(stat.st_dev) as u32;
        let records = self.read()?;
        let (records, _) = records.as_chunks::<RECORD_BYTES>();
        let number = |record: &[u8; RECORD_BYTES], at: usize| {
            u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        let long = |record: &[u8; RECORD_BYTES], at: usize| {
            let (low, high) = (u64::from(number(record, at)), u64::from(number(record, at + 4)));
            if cfg!(target_endian = "little") { low | high << 32 } else { high | low << 32 }
        };
        let wanted = (file.as_raw_fd() as u32, device, stat.st_ino);
        let is_wanted =
            |record: &&[u8; RECORD_BYTES]| (number(record, 12), number(record, 8), long(record, 0)) == wanted;
        let found = records.iter().find(is_wanted);
        let record = found
            .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the BPF iterator returned no record of this file"))?;
        if long(record, 24) & ABORTED != 0 {
            return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "the journal was aborted"));
        }
        Ok(TransactionState { transaction: number(record, 16), committed: number(record, 20) })
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

/// Loads a BPF iterator over the open files of the process that reads the iterator, and pins it at
/// `path`. This path must be in a `bpf` file system. Requires root.
pub fn pin(path: &Path) -> Result<(), String> {
    let iterator = load(None)?;
    let failed = |e: io::Error| format!("{}: {e}", path.display());
    kernel::pin(iterator.as_fd(), path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o444)).map_err(failed)
}

/// Opens a pinned iterator. Rejects a file if a user other than root could have placed it there.
fn open_pinned(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let by_root = file.metadata()?.uid() == 0;
    if fstatfs(&file)?.filesystem_type() != BPF_FS_MAGIC || !by_root {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "not an iterator that root has pinned in a bpf file system",
        ));
    }
    Ok(file)
}

/// Loads a BPF iterator over the open files of the process with the id `of`. If `of` is `None`,
/// each process that reads the iterator gets its own files.
fn load(of: Option<u32>) -> Result<OwnedFd, String> {
    let read =
        |name: &str| fs::read(format!("/sys/kernel/btf/{name}")).map_err(|e| format!("/sys/kernel/btf/{name}: {e}"));
    let kernel = Btf::parse(&read("vmlinux")?)?;
    // If the kernel's BTF lacks a type, the type belongs to a module, which has its own BTF.
    let module = |name: &str, holds: &str| {
        if kernel.has_struct(holds) { Ok(None) } else { kernel.clone().with(&read(name)?).map(Some) }
    };
    let (ext4, jbd2) = (module("ext4", "ext4_inode_info")?, module("jbd2", "journal_s")?);
    let types =
        Types { kernel: &kernel, ext4: ext4.as_ref().unwrap_or(&kernel), jbd2: jbd2.as_ref().unwrap_or(&kernel) };
    let rejected = |e: io::Error| match e.kind() {
        ErrorKind::PermissionDenied => {
            format!(
                "BPF programs require the privileges CAP_BPF and CAP_PERFMON ({e}); run `terrace pin` as root to share one"
            )
        }
        _ => format!("the kernel rejected the BPF program: {e}"),
    };
    let program = kernel::load(&assemble(&types)?, kernel.function("bpf_iter_task_file")?).map_err(rejected)?;
    kernel::link(program.as_fd(), of).map_err(rejected)
}
