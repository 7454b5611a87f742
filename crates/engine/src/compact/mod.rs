//! What is merged when, and what a merge may leave out: pure decisions. `jobs/compact.rs` carries them out.
pub mod claim;
pub mod collect;
pub mod hidden;
pub mod level0;
pub mod leveled;
pub mod lull;
pub mod may_drop;
pub mod pace;
pub mod plan;
pub mod rate;
pub mod seeks;
mod sink;
pub mod sizes;
pub mod split;
pub mod tombstones;

#[cfg(test)]
mod tests;
