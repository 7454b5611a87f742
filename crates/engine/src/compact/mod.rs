//! Compaction decisions: the picker and policy, the entries a compaction may drop, value-log GC
//! victims. All of it is pure (no I/O, no clock, no locks); `jobs/compact.rs` runs the plans.
//!
//! ```text
//! Situation (live version, running compactions, limits) ─▶ Policy ─▶ Plan ─▶ compaction job
//!   leveled:  move_level_down ─▶ levels by score ─▶ seek_compaction ─▶ tombstones
//! ```
pub mod compaction_rate;
pub mod drop_rule;
pub mod idle;
pub mod level0;
pub mod level_targets;
pub mod leveled;
mod move_level_down;
pub mod parallelism;
pub mod plan;
pub mod reservation;
pub mod seek_compaction;
pub mod shadow_estimate;
pub mod split;
pub mod tombstones;
pub mod value_log_gc;

#[cfg(test)]
mod scale;
#[cfg(test)]
mod tests;
