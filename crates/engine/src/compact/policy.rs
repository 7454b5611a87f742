//! The interface of compaction policies. A policy looks at a version and returns the plan of a
//! compaction. Policies are pure: no I/O, no clock, no locks.
use super::{limits::Limits, plan::Plan, situation::Situation};
use crate::version::{KeyRange, Version};

/// A compaction policy defines the shape of the tree and picks the compactions that keep this
/// shape. A policy has no state other than the numbers that it copies from the options.
///
/// Another policy is one more file in this folder and one more line in
/// [`policy_of`](super::policy_of).
pub trait Policy: Send + Sync {
    /// Returns the most urgent compaction that does not conflict with a running compaction; `None`
    /// if no level is due for a compaction.
    fn plan(&self, ctx: &Situation<'_>) -> Option<Plan>;
    /// Returns a compaction of tables of `level` that have keys of `range`, beginning at the start
    /// of the range; `None` if there are no such tables. The caller checks whether the plan
    /// conflicts with running compactions.
    fn plan_range(&self, ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan>;
    /// Returns the deepest level in which a flush job may place a table with keys of `range`. The
    /// caller ensures that no compaction is running.
    fn level_for_flush(&self, ctx: &Situation<'_>, range: &KeyRange<'_>) -> usize;
    /// Returns the pending compaction bytes of a version: the bytes that compactions still have to
    /// move.
    fn debt(&self, limits: &Limits, version: &Version) -> u64;
    /// Returns the number of sorted runs that the write controller compares with the limits at
    /// which writes are slowed or stopped.
    fn stall_runs(&self, version: &Version) -> u64;
}
