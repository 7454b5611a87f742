//! The four calls of `bpf(2)` that load a program, make an iterator of it, read from it, and give it a name. The program reads
//! kernel memory through helpers that cannot fault, and writes none (`program.rs`); the kernel's verifier sees to it.
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

/// Room for what the verifier says about a program that it refuses.
const COMPLAINT_BYTES: usize = 64 << 10;

/// The arguments of one call: a union whose unused end must be zero. As words, since every field that is used here begins
/// at, or fills the upper half of, a multiple of eight bytes.
type Arguments = [u64; 20];

/// One call. `arguments` hold addresses; what they point to must be alive, and as long as the call takes them for.
fn bpf(command: i32, arguments: &mut Arguments) -> io::Result<i32> {
    let bytes = size_of::<Arguments>();
    // SAFETY: `arguments` is memory of our own of `bytes` bytes, which the kernel reads and writes during the call only.
    // The addresses within it are those that the callers below put there, each of memory that they own, with its length
    // beside it; the kernel copies from them (and into the complaint's) during the call and keeps none.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, arguments.as_mut_ptr(), bytes) };
    Ok(Errno::result(outcome)? as i32)
}

/// A descriptor that a call returned.
fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn address<T>(of: &[T]) -> u64 {
    of.as_ptr().expose_provenance() as u64
}

/// Loads `program`, which iterates as the kernel's function number `function` does. The error has the verifier's last words.
pub fn load(program: &[u64], function: u32) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"Dual MIT/GPL"; // helpers that read kernel memory are for programs that say so
    let mut complaint = vec![0u8; COMPLAINT_BYTES];
    let mut arguments: Arguments = [0; 20];
    arguments[0] = TRACING | (program.len() as u64) << 32;
    arguments[1] = address(program);
    arguments[2] = address(LICENSE.to_bytes_with_nul());
    arguments[3] = 1 | (complaint.len() as u64) << 32;
    arguments[4] = complaint.as_mut_ptr().expose_provenance() as u64;
    arguments[6] = u64::from_ne_bytes(*b"terrace\0");
    arguments[8] = TRACE_ITER << 32;
    arguments[13] = u64::from(function) << 32;
    bpf(PROG_LOAD, &mut arguments).map(owned).map_err(|error| {
        let said = String::from_utf8_lossy(&complaint);
        match said.trim_matches(['\0', '\n']).lines().rev().nth(1) {
            Some(words)
                if error.raw_os_error() == Some(libc::EACCES) || error.kind() == io::ErrorKind::InvalidInput =>
            {
                io::Error::new(error.kind(), format!("{error}: {words}"))
            }
            _ => error,
        }
    })
}

/// An iterator over the files of process `of`, or of all.
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

/// One run of an iterator: a file to be read to its end.
pub fn run(iterator: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut arguments: Arguments = [0; 20];
    arguments[0] = iterator.as_raw_fd() as u64;
    bpf(ITER_CREATE, &mut arguments).map(owned)
}

/// Gives an iterator a name in a `bpf` file system, where it stays until that is removed.
pub fn pin(iterator: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut arguments: Arguments = [0; 20];
    arguments[0] = address(name.as_bytes_with_nul());
    arguments[1] = iterator.as_raw_fd() as u64;
    bpf(OBJ_PIN, &mut arguments).map(drop)
}
