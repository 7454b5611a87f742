//! Background jobs: flush, compaction, and the commit of pending edits to the manifest.
//!
//! A job does its I/O without the state lock, and takes the lock only to install its result. Then
//! the module `state` starts the work that has become due because of the result. The module
//! `state` knows the jobs only as [`Jobs`](crate::state::Jobs), which the module `db` passes to
//! it.
pub mod change_family;
pub mod commit_edits;
pub mod compact;
pub mod drop_filter;
pub mod flush;
mod output;
