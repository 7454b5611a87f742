//! The operating system's name of an open file.

/// A borrowed file descriptor.
#[cfg(unix)]
pub type Descriptor<'a> = std::os::fd::BorrowedFd<'a>;

/// A borrowed handle.
#[cfg(windows)]
pub type Descriptor<'a> = std::os::windows::io::BorrowedHandle<'a>;
