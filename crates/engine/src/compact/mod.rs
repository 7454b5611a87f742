//! Compaction decisions: the picker and policy, the entries a compaction may drop, value-log GC
//! victims. All of it is pure (no I/O, no clock, no locks); `jobs/compact.rs` runs the plans.
#[path = "reservation.rs"]
pub mod claim;
pub mod idle;
pub mod level0;
pub mod leveled;
#[path = "drop_rule.rs"]
pub mod may_drop;
mod move_level_down;
#[path = "parallelism.rs"]
pub mod pace;
pub mod plan;
#[path = "compaction_rate.rs"]
pub mod rate;
#[path = "seek_compaction.rs"]
pub mod seeks;
pub mod shadow_estimate;
#[path = "level_targets.rs"]
pub mod sizes;
pub mod split;
pub mod tombstones;
pub mod value_log_gc;

#[cfg(test)]
mod tests;
