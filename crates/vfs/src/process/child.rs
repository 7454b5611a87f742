//! System calls for the detection of forks that have no safe wrapper.
#![allow(unsafe_code, reason = "the handler of forks and the replacement of descriptors")]
use nix::libc;
use std::{
    os::fd::RawFd,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

/// Registers `handler` to run in every forked child from now on, before any other code of the
/// child. The handler may only do what a signal handler may do. The reason: threads of the parent,
/// which do not exist in the child, may hold any lock.
pub(crate) fn at_fork(handler: extern "C" fn()) {
    let handler: unsafe extern "C" fn() = handler;
    // SAFETY: `handler` exists as long as this library is loaded, and the C library unregisters it
    // when this library is unloaded. The call fails only if memory is short. Then forked children
    // are not detected, as in any program without such a handler.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}

/// How the root directory is opened, so that the descriptor can be neither read nor written.
#[cfg(target_os = "linux")]
const ROOT: libc::c_int = libc::O_PATH;
/// How the root directory is opened. A directory can neither be read nor written as a file.
#[cfg(not(target_os = "linux"))]
const ROOT: libc::c_int = libc::O_RDONLY | libc::O_DIRECTORY;

/// A descriptor that replaces another descriptor in a forked child. It is opened before the fork,
/// because a child may have no unused descriptor.
static USELESS: AtomicI32 = AtomicI32::new(-1);

/// Prepares [`replace_in_child`]: opens the descriptor that will replace others. Must be called
/// before the first fork.
pub(crate) fn prepare_to_replace() {
    if USELESS.load(Relaxed) < 0 {
        // SAFETY: the call accesses only the path, a constant that ends in a zero byte.
        let useless = unsafe { libc::open(c"/".as_ptr(), ROOT | libc::O_CLOEXEC) };
        if useless >= 0 && USELESS.compare_exchange(-1, useless, Relaxed, Relaxed).is_err() {
            // SAFETY: another thread has stored its own descriptor first, so `useless` is not
            // stored anywhere, and this function closes it.
            unsafe { libc::close(useless) };
        }
    }
}

/// Replaces `descriptor` by one that can be neither read nor written. The calling process must be
/// a child that was just forked. Afterwards the child holds no lock through the old descriptor,
/// and the number of the descriptor stays in use. The function makes only calls that a signal
/// handler may make.
pub(crate) fn replace_in_child(descriptor: RawFd) {
    let useless = USELESS.load(Relaxed);
    if useless >= 0 && useless != descriptor {
        // SAFETY: the call takes two descriptors and a number, and accesses no memory. `descriptor`
        // stays open, now for a directory that can neither be read nor written; its owner closes
        // it.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::dup3(useless, descriptor, libc::O_CLOEXEC)
        };
        // SAFETY: as above. There is no `dup3`, so a program that the child executes inherits the
        // descriptor of the root directory, which does no harm.
        #[cfg(not(target_os = "linux"))]
        unsafe {
            libc::dup2(useless, descriptor)
        };
    }
}
