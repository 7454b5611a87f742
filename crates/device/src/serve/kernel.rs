//! System calls that `std` and `nix` lack: ioctls of loop devices and of FUSE, and a `prctl`.
//!
//! # Safety
//! The ioctls of loop devices and of FUSE read a structure with the kernel's layout
//! (`include/uapi/linux/loop.h`, `fuse.h`), whose size is checked below, or access no memory at
//! all. `prctl` is called with numbers only.
#![allow(unsafe_code)]
use nix::{errno::Errno, libc};
use std::{
    fs::File,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
};

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304 && size_of::<BackingMap>() == 16);

const AUTOCLEAR: u32 = 4;
/// Flag of a loop device that permits partitions (`LO_FLAGS_PARTSCAN`).
const PARTITIONS: u32 = 8;
const DIRECT_IO: u32 = 16;
const PR_SET_IO_FLUSHER: libc::c_int = 57;

nix::ioctl_none_bad!(loop_get_free, 0x4C82);
nix::ioctl_none_bad!(loop_clear, 0x4C01);
nix::ioctl_write_ptr_bad!(loop_configure, 0x4C0A, LoopConfig);
nix::ioctl_write_ptr!(fuse_backing_open, 229, 1, BackingMap);

/// Returns the id of a free loop device. Another process may use the device before the caller
/// does.
pub fn free_loop(control: &File) -> nix::Result<i32> {
    // SAFETY: the call accesses no memory, and the descriptor is open.
    unsafe { loop_get_free(control.as_raw_fd()) }
}

/// Options of a loop device.
#[derive(Clone, Copy, Debug)]
pub struct LoopForm {
    /// Detach the device when it is closed or unmounted for the last time.
    pub autoclear: bool,
    /// Use direct I/O on the backing file.
    pub direct: bool,
}

/// Registers `file` with the FUSE connection `kernel` as a backing file for passthrough, and
/// returns the kernel's id of the file. Requires Linux 6.9 and CAP_SYS_ADMIN.
pub fn open_backing(kernel: &File, file: BorrowedFd<'_>) -> nix::Result<i32> {
    let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY: the kernel reads one `BackingMap`. This type has the layout that the kernel expects,
    // and the value lives until the call returns.
    unsafe { fuse_backing_open(kernel.as_raw_fd(), &map) }
}

/// Attaches `image` to the loop device `node`, in blocks of 4096 bytes.
pub fn configure_loop(node: &File, image: RawFd, form: LoopForm) -> nix::Result<()> {
    let LoopForm { autoclear, direct } = form;
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: PARTITIONS | flag(direct, DIRECT_IO) | flag(autoclear, AUTOCLEAR),
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let fd = u32::try_from(image).map_err(|_| Errno::EBADF)?;
    let config = LoopConfig { fd, block_size: 4096, info, reserved: [0; 8] };
    // SAFETY: the kernel reads one `LoopConfig`. This type has the layout that the kernel expects,
    // and the value lives until the call returns.
    unsafe { loop_configure(node.as_raw_fd(), &config) }.map(drop)
}

/// Detaches the loop device `node` immediately or, if it has users, when the last one closes it.
pub fn clear_loop(node: &File) -> nix::Result<()> {
    // SAFETY: the call accesses no memory, and the descriptor is open.
    unsafe { loop_clear(node.as_raw_fd()) }.map(drop)
}

/// Declares this process an I/O flusher. Under memory pressure, the kernel then does not let it
/// wait for writes to the device that it serves itself. Requires CAP_SYS_RESOURCE.
pub fn be_io_flusher() -> nix::Result<()> {
    // SAFETY: all arguments are numbers, and the unused ones are zero, as the call requires.
    Errno::result(unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) }).map(drop)
}
