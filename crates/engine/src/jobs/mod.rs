//! What happens in the background: memtable to table, tables to tables, edits to the manifest.
//!
//! A job does its I/O without the control lock, takes the lock to install what it made, and asks `state` what is due
//! next. `state` knows the jobs only as [`Jobs`](crate::state::Jobs), which `db` hands to it.
pub mod commit_edits;
pub mod compact;
pub mod drop_filter;
pub mod flush;
mod output;
