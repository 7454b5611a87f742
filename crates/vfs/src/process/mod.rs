//! The calling process. On Unix, a forked child is told apart from its parent.
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
