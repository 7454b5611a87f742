//! Reads. A reader pins a view (the memtables and one version). It merges the sorted sources of
//! the view and returns the entries that its snapshot may see.
//!
//! ```text
//! get:     view ─▶ memtables, newest first ─▶ runs, newest first ─▶ first entry found ─▶ value
//! cursor:  view ─▶ one source per memtable and run ─▶ Merge (internal-key order)
//!               ─▶ SnapshotIter (drops shadowed entries and tombstones) ─▶ Cursor (bounds, values)
//! ```
pub mod changes;
pub mod get;
pub mod merge;
pub mod pinned;
pub mod range;
pub mod range_tombstone_iter;
mod read_ahead;
pub mod run;
pub mod scan;
pub mod separated_values;
pub mod snapshot;
pub mod snapshot_iter;
pub mod source;
pub mod updates;
pub mod view;
