//! Reading: a view is pinned, its sources are merged, and what a reader may see is picked from the merge.
pub mod ahead;
pub mod apart;
pub mod get;
pub mod merge;
pub mod pinned;
pub mod range_tombstone_iter;
pub mod run;
pub mod scan;
pub mod snapshot;
pub mod snapshot_iter;
pub mod source;
pub mod updates;
pub mod view;
