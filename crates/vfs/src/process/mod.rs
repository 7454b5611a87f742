//! The calling process. On Unix, code recognizes that it runs in a forked child.
#[cfg(unix)]
mod child;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{KeptFromChildren, Process};
#[cfg(windows)]
pub use windows::Process;
