//! What is merged when, and what a merge may leave out: pure decisions. `jobs/compact.rs` carries them out.
pub mod leveled;
pub mod may_drop;
pub mod plan;
