//! A version: the SSTables of all levels at one moment. A version never changes. Readers pin the
//! version that they use.
//!
//! ```text
//! Version ── levels[0] ── run ── table          level 0: one run per table, newest first
//!         │             └ run ── table
//!         ├─ levels[1] ── run ── table table …  deeper levels: one run or several, by policy
//!         └─ …
//! ```
//! A level is a list of *sorted runs*, newest first. A run is a list of tables in key order that
//! do not overlap. In level 0 each table is a run, and the runs are ordered by table number
//! (docs/durability.md). In a leveled tree each deeper level has one run. The universal policy has
//! several runs in level 1, which are ordered by the run numbers in the manifest.
mod added_table;
pub mod check;
mod chunks;
pub mod contents;
mod index;
mod level;
mod objects;
pub mod obsolete_files;
pub mod pending;
pub mod run;
pub mod segments;
pub mod set;
mod table_ref;
mod totals;
#[allow(clippy::module_inception, reason = "the folder has what versions are made of")]
mod version;

pub use added_table::{add_to, meta_of};
pub use contents::Contents;
pub use level::Level;
pub use objects::{files, objects, objects_of, objects_written_with};
pub use run::{Run, Tables};
pub use table_ref::{KeyRange, TableRef, reserved_above, run_number};
pub use totals::LevelTotals;
pub use version::Version;
