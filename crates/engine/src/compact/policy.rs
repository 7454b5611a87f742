//! The interface of compaction policies. A policy reads a version and returns the plan of a
//! compaction. Policies are pure: no I/O, no clock, no locks.
use super::{limits::Limits, plan::Plan, situation::Situation};
use crate::version::{KeyRange, Version};

/// A compaction policy defines the shape of the tree and picks the compactions that keep this
/// shape. A policy has no state other than the numbers that it copies from the options.
///
/// To add a policy, add a file to this folder and a line to [`policy_of`](super::policy_of).
pub trait Policy: Send + Sync {
    /// Returns the most urgent compaction that conflicts with no running compaction; `None` if no
    /// compaction is necessary or all of them conflict.
    fn plan(&self, ctx: &Situation<'_>) -> Option<Plan>;
    /// Plans a compaction of tables of `level` with keys of `range`, beginning at the start of the
    /// range. Returns `None` if there are no such tables. The plan may conflict with running
    /// compactions, so the caller must check for conflicts.
    fn plan_range(&self, ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan>;
    /// Returns the deepest level in which a flush job may place a table with keys of `range`. The
    /// caller ensures that no compaction is running.
    fn level_for_flush(&self, ctx: &Situation<'_>, range: &KeyRange<'_>) -> usize;
    /// Returns the pending compaction bytes of a version: the bytes that compactions still have to
    /// rewrite until no level exceeds its target size.
    fn debt(&self, limits: &Limits, version: &Version) -> u64;
    /// Returns the number of sorted runs that the write controller compares with its limits when it
    /// decides whether to slow or stop writes.
    fn stall_runs(&self, version: &Version) -> u64;
}
