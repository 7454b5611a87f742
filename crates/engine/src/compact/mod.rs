//! Compaction: a pure plan, a merge that carries it out, and the rule for what it may leave out.
pub mod job;
pub mod leveled;
pub mod may_drop;
pub mod plan;
