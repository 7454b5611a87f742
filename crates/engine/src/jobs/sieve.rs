//! Which entries and deletes of ranges a merge leaves out.
use crate::{
    Result,
    compact::{
        leveled::{is_bottom, is_range_bottom},
        may_drop::MayDrop,
        plan::Plan,
    },
    state::Shared,
    version::KeyRange,
};
use terrace_format::{
    RangeDeletes, SeqNo,
    key::{self, Parsed},
};
use terrace_storage::placement::{BlockCursor, Fragment};

/// User keys of one part of a merge.
#[derive(Default)]
pub struct Part {
    /// Included.
    pub from: Option<Vec<u8>>,
    /// Not included.
    pub to: Option<Vec<u8>>,
}

/// What nobody can see any more of one part of a merge.
pub struct Sieve<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    /// The inputs' deletes of ranges, within the part.
    pub ranges: RangeDeletes,
    oldest_reader: SeqNo,
    /// Of the entries.
    pub rule: MayDrop,
}

impl<'a> Sieve<'a> {
    /// Of what nobody reads any more at a position below `oldest_reader`.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn new(shared: &'a Shared, plan: &'a Plan, part: &Part, oldest_reader: SeqNo) -> Result<Sieve<'a>> {
        let mut all = RangeDeletes::default();
        for (_, table) in plan.inputs().filter(|_| shared.deletes_ranges) {
            if let Some(ranges) = table.open(&*shared.placement)?.range_deletes()? {
                all.extend(&shared.order, &ranges);
            }
        }
        let ranges = all.within(&shared.order, part.from.as_deref(), part.to.as_deref());
        Ok(Sieve { shared, plan, ranges, oldest_reader, rule: MayDrop::new(oldest_reader) })
    }

    /// Whether `entry` goes. It must be asked of each entry, in their order.
    pub fn drops(&mut self, entry: &Parsed<'_>) -> bool {
        let Sieve { shared: Shared { order, .. }, plan, .. } = self;
        let bottom = || is_bottom(order, &plan.version, plan.output_level, entry.user);
        let by_rule = self.rule.entry(order, entry, bottom);
        by_rule || self.ranges.newest(order, entry.user, self.oldest_reader) > entry.seq
    }

    /// Whether none of the entries at hand goes, and if so, whether the first one begins a user key. If one goes, all are still to be asked.
    pub fn keeps_all(&mut self, entries: &BlockCursor) -> Option<bool> {
        let (rule, mut begins_key) = (self.rule.clone(), None);
        for (internal_key, _) in entries.at_hand() {
            if self.drops(&key::apart(internal_key)) {
                self.rule = rule;
                return None;
            }
            begins_key.get_or_insert(self.rule.begins_key());
        }
        begins_key
    }

    /// What must be kept of the deletes of ranges: those that some reader does not see yet, and the newest that all see,
    /// unless nothing is left that it could hide.
    pub fn kept_ranges(&self) -> Vec<Fragment> {
        let Sieve { shared: Shared { order, .. }, plan, oldest_reader, .. } = self;
        let mut kept = self.ranges.clone();
        kept.keep(|fragment| {
            let unseen = fragment.sequences.partition_point(|seq| seq > oldest_reader);
            let range = KeyRange { from: Some(&fragment.from), to: Some(&fragment.to) };
            let spent = is_range_bottom(order, &plan.version, plan.output_level, &range);
            let count = if spent { unseen } else { (unseen + 1).min(fragment.sequences.len()) };
            fragment.sequences[..count].to_vec()
        });
        kept.fragments().to_vec()
    }
}
