//! The interface of compaction policies: a policy looks at a version and returns a plan. Pure: no
//! I/O, no clock, no locks.
use super::{limits::Limits, plan::Plan, situation::Situation};
use crate::version::{KeyRange, Version};

/// A compaction policy: the shape of the tree, and the compactions that keep it. Stateless, apart
/// from numbers of options.
///
/// Another policy is one more file in this folder and one more line in
/// [`policy_of`](super::policy_of).
pub trait Policy: Send + Sync {
    /// Returns the most urgent compaction that conflicts with no running one; `None` if no level is
    /// due.
    fn plan(&self, ctx: &Situation<'_>) -> Option<Plan>;
    /// Returns a compaction of the tables of `level` with keys of `range`, from its start on;
    /// `None` if there are none. The caller checks for conflicts with running compactions.
    fn plan_range(&self, ctx: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan>;
    /// Returns the deepest level into which a flush may place a table with keys of `range`. The
    /// caller ensures that no compaction runs.
    fn level_for_flush(&self, ctx: &Situation<'_>, range: &KeyRange<'_>) -> usize;
    /// Returns the pending compaction bytes of a version.
    fn debt(&self, limits: &Limits, version: &Version) -> u64;
    /// Returns the number of sorted runs that slow and stop writes when there are too many.
    fn stall_runs(&self, version: &Version) -> u64;
}
