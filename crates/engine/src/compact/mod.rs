//! Compaction decisions: which tables a compaction merges (the policy), which entries it may drop,
//! and which value-log segments GC empties. All modules of this folder are pure (no I/O, no clock,
//! no locks). The compaction job (`jobs/compact.rs`) executes the plans that a policy returns.
//!
//! ```text
//! Situation (live version, running compactions, limits) ─▶ Policy ─▶ Plan ─▶ compaction job
//!   leveled:    move_level_down ─▶ levels by score ─▶ seek_compaction ─▶ tombstones
//!   universal:  space amplification ─▶ size ratio ─▶ number of runs
//! ```
pub mod compaction_rate;
pub mod drop_rule;
pub mod gain;
pub mod idle;
pub mod inputs;
pub mod level0;
pub mod level_targets;
pub mod leveled;
pub mod limits;
mod move_level_down;
pub mod older_runs;
pub mod parallelism;
pub mod plan;
pub mod policy;
pub mod reservation;
pub mod seek_compaction;
pub mod shadow_estimate;
pub mod situation;
pub mod split;
pub mod tombstones;
mod universal;
pub mod value_log_gc;

use crate::{CompactionStyle, Options};
use leveled::Leveled;
use policy::Policy;
use universal::Universal;

/// Returns the compaction policy that `options` choose.
pub fn policy_of(options: &Options) -> Box<dyn Policy> {
    match options.compaction_style {
        CompactionStyle::Leveled => Box::new(Leveled),
        CompactionStyle::Universal => Box::new(Universal::of(options)),
    }
}

#[cfg(test)]
mod scale;
#[cfg(test)]
mod tests;
