//! What is merged when, and what a merge may leave out: pure decisions. `jobs/compact.rs` carries them out.
pub mod claim;
pub mod idle;
pub mod level0;
pub mod leveled;
pub mod may_drop;
mod move_level_down;
pub mod pace;
pub mod plan;
pub mod rate;
pub mod seeks;
pub mod shadow_estimate;
pub mod sizes;
pub mod split;
pub mod tombstones;
pub mod value_log_gc;

#[cfg(test)]
mod tests;
