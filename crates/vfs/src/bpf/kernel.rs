//! The four commands of the `bpf(2)` system call that this crate needs: load a program, attach it
//! as an iterator, read the iterator, and pin it.
//!
//! The loaded program reads kernel memory only through helpers that cannot fault, and it writes no
//! kernel memory (see `program.rs`). The kernel's verifier enforces both properties.
use nix::{errno::Errno, libc};
use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

const PROG_LOAD: i32 = 5;
const OBJ_PIN: i32 = 6;
const LINK_CREATE: i32 = 28;
const ITER_CREATE: i32 = 33;

const TRACING: u64 = 26;
const TRACE_ITER: u64 = 28;

/// Size of the buffer for the verifier's log.
const VERIFIER_LOG_BYTES: usize = 64 << 10;

/// The argument of the `bpf` system call. The kernel declares it as a union of structs. This crate
/// uses an array of 64-bit words instead, because every field that it needs begins at a multiple
/// of eight bytes or is the upper half of a word. Unused words must be zero.
type Arguments = [u64; 20];

/// Executes one `bpf` command. Some words of `arguments` are addresses of buffers. Each buffer
/// must have the length that the command expects and stay valid until the call returns.
fn bpf(command: i32, arguments: &mut Arguments) -> io::Result<i32> {
    let bytes = size_of::<Arguments>();
    // SAFETY: `arguments` has `bytes` bytes. Some of its words are addresses of buffers. The
    // callers of this function own these buffers and pass the length of each buffer next to its
    // address. The kernel accesses `arguments` and the buffers only during the call: it reads them,
    // and it writes the verifier log into its buffer.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, arguments.as_mut_ptr(), bytes) };
    Ok(Errno::result(outcome)? as i32)
}

/// Takes ownership of a descriptor that a `bpf` command returned.
fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for the caller; nothing else refers to it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn address<T>(of: &[T]) -> u64 {
    of.as_ptr().expose_provenance() as u64
}

/// Loads `program`, a BPF program that the kernel calls once for each of its objects of one kind
/// (a BPF iterator). The kernel function `function` declares the kind, for instance all tasks. If
/// the kernel rejects the program, the error contains the last line of the verifier's log.
pub fn load(program: &[u64], function: u32) -> io::Result<OwnedFd> {
    // The kernel allows its helpers that read kernel memory only in programs with a GPL-compatible
    // license.
    const LICENSE: &CStr = c"Dual MIT/GPL";
    let mut verifier_log = vec![0u8; VERIFIER_LOG_BYTES];
    let mut arguments: Arguments = [0; 20];
    arguments[0] = TRACING | (program.len() as u64) << 32;
    arguments[1] = address(program);
    arguments[2] = address(LICENSE.to_bytes_with_nul());
    arguments[3] = 1 | (verifier_log.len() as u64) << 32;
    arguments[4] = verifier_log.as_mut_ptr().expose_provenance() as u64;
    arguments[6] = u64::from_ne_bytes(*b"terrace\0");
    arguments[8] = TRACE_ITER << 32;
    arguments[13] = u64::from(function) << 32;
    bpf(PROG_LOAD, &mut arguments).map(owned).map_err(|error| {
        let text = String::from_utf8_lossy(&verifier_log);
        match text.trim_matches(['\0', '\n']).lines().rev().nth(1) {
            Some(line) if error.raw_os_error() == Some(libc::EACCES) || error.kind() == io::ErrorKind::InvalidInput => {
                io::Error::new(error.kind(), format!("{error}: {line}"))
            }
            _ => error,
        }
    })
}

/// Attaches the program as an iterator over the open files of process `of`, or of all processes.
pub fn link(program: BorrowedFd<'_>, of: Option<u32>) -> io::Result<OwnedFd> {
    let which = [0u32, of.unwrap_or(0), 0, 0]; // thread, process, descriptor of a process
    let mut arguments: Arguments = [0; 20];
    arguments[0] = program.as_raw_fd() as u64;
    arguments[1] = TRACE_ITER;
    if of.is_some() {
        arguments[2] = address(&which);
        arguments[3] = size_of_val(&which) as u64;
    }
    bpf(LINK_CREATE, &mut arguments).map(owned)
}

/// Starts one run of a BPF iterator. The caller must read the returned file to its end.
pub fn run(iterator: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut arguments: Arguments = [0; 20];
    arguments[0] = iterator.as_raw_fd() as u64;
    bpf(ITER_CREATE, &mut arguments).map(owned)
}

/// Pins an iterator at `path` in a `bpf` file system. The iterator stays until the path is
/// removed.
pub fn pin(iterator: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut arguments: Arguments = [0; 20];
    arguments[0] = address(name.as_bytes_with_nul());
    arguments[1] = iterator.as_raw_fd() as u64;
    bpf(OBJ_PIN, &mut arguments).map(drop)
}
