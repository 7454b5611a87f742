//! Decides which entries and range tombstones a compaction drops.
use crate::{
    Result,
    compact::{
        drop_rule::{DropRule, SnapshotStripes},
        older_runs::OlderRuns,
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

/// The range of user keys of one subcompaction.
#[derive(Default)]
pub struct Subcompaction {
    /// The first user key (inclusive); `None` is unbounded.
    pub from: Option<Vec<u8>>,
    /// The end of the range (exclusive); `None` is unbounded.
    pub to: Option<Vec<u8>>,
}

/// Returns the snapshot stripes: the sequence numbers at which current and future readers read.
pub fn readers(shared: &DbInner) -> SnapshotStripes {
    let (snapshots, visible) = shared.snapshots.positions(|| shared.visible());
    SnapshotStripes::new(snapshots, visible)
}

/// Decides which entries of one subcompaction are dropped, because no reader can see them any
/// more.
pub struct DropFilter<'a> {
    shared: &'a DbInner,
    older: OlderRuns<'a>,
    /// The range tombstones of the inputs, cut to the key range of the subcompaction.
    pub ranges: RangeTombstones,
    /// The drop rule for point entries.
    pub rule: DropRule,
}

impl<'a> DropFilter<'a> {
    /// Makes a filter for one subcompaction. `readers` are the sequence numbers at which readers
    /// may read.
    ///
    /// # Errors
    /// An SSTable cannot be read.
    pub fn new(
        shared: &'a DbInner,
        plan: &'a Plan,
        sub: &Subcompaction,
        readers: &SnapshotStripes,
    ) -> Result<DropFilter<'a>> {
        let mut all = RangeTombstones::default();
        for (_, table) in plan.inputs().filter(|_| shared.has_range_tombstones) {
            if let Some(ranges) = table.open(&*shared.storage)?.range_tombstones()? {
                all.extend(&shared.order, &ranges);
            }
        }
        let ranges = all.within(&shared.order, sub.from.as_deref(), sub.to.as_deref());
        Ok(DropFilter {
            shared,
            older: OlderRuns::of(&shared.order, plan),
            ranges,
            rule: DropRule::new(readers.clone()),
        })
    }

    /// Returns whether the compaction drops `entry`. The caller must pass every entry of the
    /// subcompaction, in internal-key order.
    pub fn drops(&mut self, entry: &Parsed<'_>) -> bool {
        let DropFilter { shared: DbInner { order, .. }, older, .. } = self;
        let bottom = || !older.may_hold(entry.user);
        let by_rule = self.rule.entry(order, entry, bottom);
        by_rule || {
            let first_reader = self.rule.readers().stripe_end(entry.seq);
            self.ranges.newest(order, entry.user, first_reader) > entry.seq
        }
    }

    /// Checks all entries of a block. If the filter drops none of them, returns the entry counts of
    /// the block and whether its first entry begins a user key. If the filter drops an entry,
    /// returns `None` and resets the drop rule to its state at the start of the block.
    pub fn keeps_all(&mut self, entries: &BlockCursor) -> Option<(bool, Contents)> {
        let (place, mut begins_key, mut contents) = (self.rule.place(), None, Contents::default());
        for (internal_key, _) in entries.window_entries() {
            let entry = key::apart(internal_key);
            if self.drops(&entry) {
                self.rule.rewind(place);
                return None;
            }
            contents.add(&entry, self.rule.begins_key());
            begins_key.get_or_insert(self.rule.begins_key());
        }
        begins_key.map(|begins_key| (begins_key, contents))
    }

    /// Returns the range tombstones that the compaction keeps. A range tombstone is kept if some
    /// reader sees it but does not see the next newer tombstone of the same range. The newest range
    /// tombstone that all readers see is dropped if no older run can contain a key in its range.
    pub fn kept_range_tombstones(&self) -> Vec<Fragment> {
        let DropFilter { older, rule, .. } = self;
        let (mut kept, oldest_reader) = (self.ranges.clone(), rule.readers().oldest());
        kept.keep(|fragment| {
            let range = KeyRange { from: Some(&fragment.from), to: Some(&fragment.to) };
            let spent = !older.may_hold_any(&range);
            let mut newer = None;
            let stays = |seq: &&SeqNo| {
                let is_hidden = newer.replace(**seq).is_some_and(|newer| rule.readers().same_stripe(**seq, newer));
                !(is_hidden || spent && **seq <= oldest_reader)
            };
            fragment.sequences.iter().filter(stays).copied().collect()
        });
        kept.fragments().to_vec()
    }
}
