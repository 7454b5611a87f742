//! Which entries and deletes of ranges a merge leaves out.
use crate::{
    Result,
    compact::{
        leveled::{is_bottom, is_range_bottom},
        may_drop::{MayDrop, Readers},
        plan::Plan,
    },
    state::DbInner,
    version::{Contents, KeyRange},
};
use terrace_format::{
    RangeTombstones, SeqNo,
    key::{self, Parsed},
};
use terrace_storage::placement::{BlockCursor, Fragment};

/// User keys of one part of a merge.
#[derive(Default)]
pub struct Subcompaction {
    /// Included.
    pub from: Option<Vec<u8>>,
    /// Not included.
    pub to: Option<Vec<u8>>,
}

/// Whoever reads now or later.
pub fn readers(shared: &DbInner) -> Readers {
    let (snapshots, visible) = shared.snapshots.positions(|| shared.visible());
    Readers::new(snapshots, visible)
}

/// What nobody can see any more of one part of a merge.
pub struct DropFilter<'a> {
    shared: &'a DbInner,
    plan: &'a Plan,
    /// The inputs' deletes of ranges, within the part.
    pub ranges: RangeTombstones,
    /// Of the entries.
    pub rule: MayDrop,
}

impl<'a> DropFilter<'a> {
    /// Of what none of `readers` sees any more.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn new(shared: &'a DbInner, plan: &'a Plan, sub: &Subcompaction, readers: &Readers) -> Result<DropFilter<'a>> {
        let mut all = RangeTombstones::default();
        for (_, table) in plan.inputs().filter(|_| shared.has_range_tombstones) {
            if let Some(ranges) = table.open(&*shared.storage)?.range_tombstones()? {
                all.extend(&shared.order, &ranges);
            }
        }
        let ranges = all.within(&shared.order, sub.from.as_deref(), sub.to.as_deref());
        Ok(DropFilter { shared, plan, ranges, rule: MayDrop::new(readers.clone()) })
    }

    /// Whether `entry` goes. It must be asked of each entry, in their order.
    pub fn drops(&mut self, entry: &Parsed<'_>) -> bool {
        let DropFilter { shared: DbInner { order, .. }, plan, .. } = self;
        let bottom = || is_bottom(order, &plan.version, plan.output_level, entry.user);
        let by_rule = self.rule.entry(order, entry, bottom);
        by_rule || {
            let first_reader = self.rule.readers().first_from(entry.seq);
            self.ranges.newest(order, entry.user, first_reader) > entry.seq
        }
    }

    /// Whether none of the entries at hand goes, and if so, whether the first one begins a user key, and what they are. If one goes, all are
    /// still to be asked.
    pub fn keeps_all(&mut self, entries: &BlockCursor) -> Option<(bool, Contents)> {
        let (place, mut begins_key, mut contents) = (self.rule.place(), None, Contents::default());
        for (internal_key, _) in entries.at_hand() {
            let entry = key::apart(internal_key);
            if self.drops(&entry) {
                self.rule.go_back(place);
                return None;
            }
            contents.add(&entry, self.rule.begins_key());
            begins_key.get_or_insert(self.rule.begins_key());
        }
        begins_key.map(|begins_key| (begins_key, contents))
    }

    /// What must be kept of the deletes of ranges: those that some reader sees who does not see the next newer one, but for the last one
    /// where all see it and nothing is left that it could hide.
    pub fn kept_range_tombstones(&self) -> Vec<Fragment> {
        let DropFilter { shared: DbInner { order, .. }, plan, rule, .. } = self;
        let (mut kept, oldest_reader) = (self.ranges.clone(), rule.readers().oldest());
        kept.keep(|fragment| {
            let range = KeyRange { from: Some(&fragment.from), to: Some(&fragment.to) };
            let spent = is_range_bottom(order, &plan.version, plan.output_level, &range);
            let mut newer = None;
            let stays = |seq: &&SeqNo| {
                let is_hidden = newer.replace(**seq).is_some_and(|newer| rule.readers().hide(**seq, newer));
                !(is_hidden || spent && **seq <= oldest_reader)
            };
            fragment.sequences.iter().filter(stays).copied().collect()
        });
        kept.fragments().to_vec()
    }
}
