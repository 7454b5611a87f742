//! Garbage collection of the value log: which segments to empty, and which SSTable to rewrite next
//! for it. Pure. A segment is a value-log file, or a WAL that tables point into.
//!
//! ```text
//!            garbage > value_log_gc_percent?
//!                        │
//!         ┌──── segments ┴─ tail ─────────────────┐
//!   pick victims by benefit/cost          pick the oldest segments
//!         │                                       │
//!   compactions relocate values           re-append live values as new writes
//!   (rewrite tables in place)             (`write/again.rs`), then rewrite tables
//!         │                               with shadowed pointers
//!         └──── no reference left ────────────────┘
//!                        │
//!                segment is obsolete
//! ```
//! Mode *segments*: a segment without references is removed unread. Of the others GC picks those
//! with the best ratio of reclaimed bytes to relocated bytes, until garbage is well below its
//! limit. Tables that reference a victim are rewritten in place, in key order; every other
//! compaction that reads such a table relocates its values too. A table keeps its entries under
//! their own sequence numbers, so no deleted value can return. Garbage that is not known yet is
//! exposed first ([`shadow_estimate`]).
//!
//! Mode *tail* is WiscKey's: GC empties the oldest segments and re-appends their live values
//! under new sequence numbers. The old pointers are then shadowed by newer writes, and tables
//! with such pointers are rewritten too.
use super::{inputs::in_place, plan::Plan, shadow_estimate, situation::Situation};
use crate::version::{
    KeyRange, TableRef,
    segments::{Segment, Segments},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{LEVELS, SeqNo, TableId, key};
use terrace_storage::placement::ObjectId;

/// State of value-log GC. Guarded by the state lock.
#[derive(Debug, Default)]
pub struct ValueLogGc {
    /// Segments that are being emptied: value-log files, or WALs that tables point into.
    pub victims: BTreeSet<ObjectId>,
    /// Tail GC: whether the job that re-appends the victims' live values is queued or running.
    pub relocating: bool,
    /// Tail GC: the last sequence number of the finished job. Every pointer into a victim is older
    /// than the newest entry of its key.
    pub relocated_by: Option<SeqNo>,
    /// Segments that cannot be emptied because part of them is unreadable. They are left alone
    /// until the store is reopened.
    pub quarantined: BTreeSet<ObjectId>,
    /// Whether a caller waits until all victims are empty, however little garbage they hold.
    pub forced: bool,
    /// Whether GC ran out of space. It pauses until space is freed.
    pub out_of_space: bool,
    /// Bytes of all segments when little of them was garbage, lowered when the log shrinks.
    pub baseline_bytes: u64,
    /// Observed share of shadowed garbage.
    pub shadow_stats: shadow_estimate::ShadowStats,
    /// Whether there was no space for a compaction that exposes garbage. None starts until space is
    /// freed.
    pub low_on_space: bool,
    /// Tables whose GC compaction failed. They are left alone until the store is reopened.
    pub refused: BTreeSet<TableId>,
}

impl ValueLogGc {
    /// Notes the size of the value log and its garbage, shadowed garbage included. The size becomes
    /// the baseline if garbage is at most half of its limit.
    pub fn update_baseline(&mut self, all: &Segment, percent: u64) {
        let is_small = !exceeds(all.garbage().saturating_mul(2), all.bytes, percent);
        self.baseline_bytes = if is_small { all.bytes } else { self.baseline_bytes.min(all.bytes) };
    }

    /// Notes that space was freed.
    pub fn on_space_freed(&mut self) {
        (self.out_of_space, self.low_on_space) = (false, false);
    }

    /// Quarantines those of `segments` that are victims: GC does not try them again.
    pub fn quarantine(&mut self, segments: impl IntoIterator<Item = ObjectId>) {
        for segment in segments {
            if self.victims.remove(&segment) {
                self.quarantined.insert(segment);
            }
        }
    }

    /// Tail GC: returns the victims that no table needs to reference any more. `oldest_reader` and
    /// all later readers see the re-appended entries, and these are in tables, as all writes up to
    /// `flushed` are.
    pub fn obsolete_victims(&self, oldest_reader: SeqNo, flushed: SeqNo) -> BTreeSet<ObjectId> {
        match self.relocated_by {
            Some(relocated_by) if relocated_by <= oldest_reader && relocated_by <= flushed => self.victims.clone(),
            _ => BTreeSet::new(),
        }
    }
}

/// Shadowed garbage is exposed before segments are emptied if it is more than a quarter of the
/// garbage limit and of the known garbage.
const SHADOWED_FRACTION: u64 = 4;

/// The next step of GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcAction {
    /// Garbage is below its limit.
    Nothing,
    /// Much of the garbage is shadowed; emptying segments now would relocate it.
    Expose,
    /// Segments are to be emptied.
    Collect,
}

/// Returns the next step if `shadowed` bytes of seemingly live values are shadowed garbage and at
/// most `percent` of all bytes may be garbage. While the store receives writes, the limit is
/// relaxed (`baseline` is set): the log may be an eighth larger, and must have grown by an eighth
/// over its baseline, as values that are live now may be garbage by then.
pub fn due(all: &Segment, shadowed: u64, percent: u64, baseline: Option<u64>) -> GcAction {
    let known_garbage = all.garbage();
    let bytes = if baseline.is_some() { all.bytes / 9 * 8 } else { all.bytes };
    let exceeds_limit = exceeds(bytes.saturating_sub(all.with_shadowed(shadowed).live), bytes, percent);
    if !exceeds_limit || baseline.is_some_and(|baseline| all.bytes <= baseline.saturating_add(baseline / 8)) {
        return GcAction::Nothing;
    }
    let mostly_shadowed = exceeds(shadowed.saturating_mul(SHADOWED_FRACTION), all.bytes, percent)
        && shadowed > known_garbage / SHADOWED_FRACTION;
    if mostly_shadowed { GcAction::Expose } else { GcAction::Collect }
}

/// Whether `part` is more than `percent` of `all`. Sizes in a manifest may be any number.
fn exceeds(part: u64, all: u64, percent: u64) -> bool {
    u128::from(part) * 100 > u128::from(all) * u128::from(percent)
}

/// Picks the victims of tail GC if garbage is more than `percent` of all bytes: the oldest
/// segment, and the following ones while more than `percent` of each is garbage. At most a
/// quarter of all bytes, as live values exist twice for a while.
pub fn oldest(segments: &Segments, spared: &BTreeSet<ObjectId>, percent: u64) -> BTreeSet<ObjectId> {
    let exceeds_limit = |sum: &Segment| exceeds(sum.garbage(), sum.bytes, percent);
    let all = segments.sum_except(spared);
    let matching = segments.referenced().filter(|(object, _)| exceeds_limit(&all) && !spared.contains(object));
    let mut by_age: Vec<_> = matching.collect();
    by_age.sort_by_key(|(object, _)| object.number());
    let mut bytes = 0_u128;
    let picked = by_age.iter().enumerate().take_while(|(at, (_, segment))| {
        bytes += u128::from(segment.bytes);
        *at == 0 || exceeds_limit(segment) && bytes * 4 <= u128::from(all.bytes)
    });
    picked.map(|(_, (object, _))| *object).collect()
}

/// Picks victims, none of them in `spared`, so that known garbage falls well below `percent` of
/// all bytes.
pub fn victims(segments: &Segments, spared: &BTreeSet<ObjectId>, percent: u64) -> BTreeSet<ObjectId> {
    let all = segments.sum_except(spared);
    let exceeds_limit = |sum: &Segment, percent: u64| exceeds(sum.garbage(), sum.bytes, percent);
    let newest = segments.referenced().map(|(object, _)| object.number()).max().unwrap_or(0);
    let is_worth_it = |one: &Segment| u128::from(one.garbage()) * 200 >= u128::from(one.bytes) * u128::from(percent);
    let mut ranked: Vec<(f64, ObjectId, Segment)> = segments
        .referenced()
        .filter(|(object, segment)| is_worth_it(segment) && !spared.contains(object))
        .map(|(object, segment)| (benefit_per_cost(&segment, newest - object.number()), object, segment))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut remaining, mut chosen) = (all, BTreeSet::new());
    for (_, object, segment) in ranked {
        if !exceeds_limit(&remaining, percent * 3 / 4) {
            break;
        }
        // Live values stay, in another segment.
        remaining.bytes = remaining.bytes.saturating_sub(segment.garbage());
        chosen.insert(object);
    }
    chosen
}

/// Benefit of emptying a segment per cost. Garbage in an old segment is worth more: its remaining
/// live values will stay live, while a young segment soon has more garbage. Source: Rosenblum and
/// Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992.
fn benefit_per_cost(segment: &Segment, age: u64) -> f64 {
    let live_fraction = segment.live as f64 / segment.bytes.max(1) as f64;
    (1.0 - live_fraction) * (1 + age) as f64 / (1.0 + live_fraction)
}

/// Picks the rewrite of a table that references one of `victims`; `None` if no such table is free.
pub fn plan(
    ctx: &Situation<'_>,
    victims: &BTreeSet<ObjectId>,
    level0: impl FnOnce(&KeyRange<'_>) -> Option<Plan>,
) -> Option<Plan> {
    let references_victim = |table: &&Arc<TableRef>| table.meta.refs.iter().any(|(object, _)| victims.contains(object));
    let plan_of =
        |(level, table): (usize, &Arc<TableRef>)| Plan { gc_only: true, ..in_place(ctx, level, vec![table.clone()]) };
    let levels = (1..LEVELS).rev().flat_map(|level| ctx.version.levels[level].tables().map(move |t| (level, t)));
    let matching = levels.filter(|(_, table)| references_victim(table)).map(plan_of);
    let deep = matching.into_iter().find(|plan| ctx.busy.admits(ctx.order, plan));
    deep.or_else(|| {
        // Runs of level 0 are ordered by table number, so its tables are compacted into level 1
        // instead of rewritten in place.
        let table = ctx.version.levels[0].tables().find(references_victim)?;
        let (from, to) = (key::user_key(&table.meta.smallest), key::user_key(&table.meta.largest));
        let plan = level0(&KeyRange { from: Some(from), to: Some(to) })?;
        ctx.busy.admits(ctx.order, &plan).then_some(Plan { gc_only: true, ..plan })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::LogId;
    use terrace_storage::placement::TableMeta;

    fn segments(of: &[(u64, u64)]) -> Segments {
        let mut segments = Segments::default();
        let mut refs = Vec::new();
        for (number, (bytes, live)) in of.iter().enumerate() {
            segments.wal_sealed(LogId(number as u64), *bytes + 56);
            refs.push((ObjectId::Wal(LogId(number as u64)), *live));
        }
        segments.add(&TableMeta { refs, ..TableMeta::unbounded(TableId(99), 1) });
        segments
    }

    fn numbers(of: &[(u64, u64)], percent: u64) -> Vec<u64> {
        victims(&segments(of), &BTreeSet::new(), percent).into_iter().map(ObjectId::number).collect()
    }

    #[test]
    fn tail_gc_picks_the_oldest_segments() {
        let oldest_of = |of: &[(u64, u64)]| -> Vec<u64> {
            oldest(&segments(of), &BTreeSet::new(), 20).into_iter().map(ObjectId::number).collect()
        };
        assert_eq!(oldest_of(&[(100, 80), (100, 85)]), [0; 0], "below the limit");
        assert_eq!(oldest_of(&[(100, 95), (100, 30), (100, 99)]), [0], "the oldest, although it has little garbage");
        let picked = [(100, 50); 9];
        assert_eq!(oldest_of(&picked), [0, 1], "a quarter at most");
        let mut some = picked;
        some[1] = (100, 90);
        assert_eq!(oldest_of(&some), [0], "the following ones only above the limit");
    }

    #[test]
    fn gc_waits_under_load_and_exposes_shadowed_garbage_first() {
        let all = |live| Segment { bytes: 900, live };
        let of = |live, shadowed, baseline| due(&all(live), shadowed, 20, baseline);
        assert_eq!([of(720, 0, None), of(719, 0, None)], [GcAction::Nothing, GcAction::Collect]);
        assert_eq!([of(640, 0, Some(0)), of(639, 0, Some(0))], [GcAction::Nothing, GcAction::Collect], "28.9 %");
        assert_eq!(
            [of(100, 0, Some(800)), of(100, 0, Some(799))],
            [GcAction::Nothing, GcAction::Collect],
            "it has grown by less than an eighth"
        );
        assert_eq!(
            [of(760, 40, None), of(760, 41, None)],
            [GcAction::Nothing, GcAction::Collect],
            "shadowed bytes count, but are few"
        );
        assert_eq!([of(760, 45, None), of(760, 46, None)], [GcAction::Collect, GcAction::Expose], "5 %");
        assert_eq!(
            [of(400, 125, None), of(400, 126, None)],
            [GcAction::Collect, GcAction::Expose],
            "a quarter of the known garbage"
        );
        let strange = Segment { bytes: u64::MAX, live: u64::MAX };
        assert_eq!(due(&strange, u64::MAX, 99, None), GcAction::Expose);
    }

    #[test]
    fn the_baseline_follows_the_log_while_little_of_it_is_garbage() {
        let mut gc = ValueLogGc::default();
        let mut update = |bytes, live| {
            gc.update_baseline(&Segment { bytes, live }, 20);
            gc.baseline_bytes
        };
        assert_eq!(update(1000, 500), 0, "no baseline yet");
        assert_eq!([update(1000, 900), update(1500, 1340), update(1200, 800)], [1000, 1000, 1000], "deletes and puts");
        assert_eq!(
            [update(800, 700), update(2000, 1700), update(3000, 2700)],
            [800, 800, 3000],
            "freed space, then a fill"
        );
    }

    #[test]
    fn a_victim_is_released_when_its_pointers_are_shadowed_for_every_reader_by_flushed_entries() {
        let mut gc = ValueLogGc { victims: [ObjectId::Wal(LogId(1))].into(), ..ValueLogGc::default() };
        assert!(gc.obsolete_victims(SeqNo::MAX, SeqNo::MAX).is_empty(), "not re-appended yet");
        gc.relocated_by = Some(SeqNo(10));
        let spent = |reader, flushed| !gc.obsolete_victims(SeqNo(reader), SeqNo(flushed)).is_empty();
        assert_eq!([spent(10, 10), spent(9, 10), spent(10, 9)], [true, false, false]);
    }

    #[test]
    fn gc_picks_segments_that_pay_off_and_only_above_the_limit() {
        assert_eq!(numbers(&[], 20), [0; 0]);
        assert_eq!(numbers(&[(100, 95), (100, 30), (100, 99)], 20), [1], "the others have little garbage");
        assert_eq!(numbers(&[(100, 50), (100, 50), (100, 90)], 20), [0, 1]);
        assert_eq!(
            numbers(&[(100, 50), (100, 50), (100, 50), (100, 0)], 20).len(),
            3,
            "a segment without references is removed anyway"
        );
        assert_eq!(numbers(&[(100, 20), (1000, 960)], 10), [0], "until garbage is well below the limit");
    }
}
