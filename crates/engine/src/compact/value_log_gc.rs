//! Garbage collection (GC) of the value log. The module decides which segments GC empties, and
//! which SSTable to rewrite next so that a segment becomes empty. A segment is a value-log file,
//! or a WAL that tables point into. This module does no I/O.
//!
//! ```text
//!            garbage > value_log_gc_percent?
//!                        │
//!         ┌──── segments ┴─ tail ─────────────────┐
//!   pick victims by benefit/cost          pick the oldest segments
//!         │                                       │
//!   compactions relocate values           re-append live values as new writes
//!   (rewrite tables in place)             (`write/tail_gc.rs`), then rewrite tables
//!         │                               with shadowed pointers
//!         └──── no reference left ────────────────┘
//!                        │
//!                segment is obsolete
//! ```
//! Mode *segments*: GC removes a segment that no table references without reading the segment. Of
//! the other segments GC picks victims: segments whose live values it moves elsewhere, so that the
//! segments become empty. The victims have the best ratio of reclaimed bytes to relocated bytes,
//! and GC picks enough of them to bring garbage well below its limit. Compactions rewrite the
//! tables that reference a victim in place, in key order, and relocate the values to another
//! segment. Every other compaction that reads a table with references to a victim relocates these
//! values too. The entries keep their sequence numbers, so no deleted value can return. Before GC
//! empties segments, it exposes shadowed garbage: it compacts shadowed entries away, because the
//! tables still reference their values ([`shadow_estimate`]).
//!
//! Mode *tail* is WiscKey's method: GC picks the oldest segments as victims and re-appends their
//! live values under new sequence numbers. The new entries shadow the entries with the old
//! pointers. Compactions then rewrite the tables that contain such old pointers.
use super::{inputs::in_place, plan::Plan, shadow_estimate, situation::Situation};
use crate::version::{
    KeyRange, TableRef,
    segments::{Segment, Segments},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{LEVELS, SeqNo, TableId, key};
use terrace_storage::placement::ObjectId;

/// The state of value-log GC. The state lock guards it.
#[derive(Debug, Default)]
pub struct ValueLogGc {
    /// The segments that GC is emptying: value-log files, or WALs that tables point into.
    pub victims: BTreeSet<ObjectId>,
    /// Tail GC: whether the relocation job, which re-appends the live values of the victims, is
    /// queued or running.
    pub relocating: bool,
    /// Tail GC: the last sequence number that the relocation job wrote, once the job is finished.
    /// From then on, every entry with a pointer into a victim is older than the newest entry of its
    /// key.
    pub relocated_by: Option<SeqNo>,
    /// The segments that GC cannot empty because part of them is unreadable. GC does not pick them
    /// again until the store is reopened.
    pub quarantined: BTreeSet<ObjectId>,
    /// Whether a caller waits until all victims are empty. GC then empties them even if they
    /// contain little garbage.
    pub forced: bool,
    /// Whether GC ran out of space. GC pauses until space is freed.
    pub out_of_space: bool,
    /// The size of all segments, in bytes, at the last time when little of them was garbage. The
    /// number decreases when the value log shrinks.
    pub baseline_bytes: u64,
    /// Statistics of past compactions, from which the share of shadowing bytes is estimated.
    pub shadow_stats: shadow_estimate::ShadowStats,
    /// Whether a compaction that would expose shadowed garbage did not start because it needed too
    /// much space. No such compaction starts until space is freed.
    pub low_on_space: bool,
    /// The tables whose GC compaction failed. GC does not rewrite them again until the store is
    /// reopened.
    pub refused: BTreeSet<TableId>,
}

impl ValueLogGc {
    /// Updates `baseline_bytes`. `all` has the size of the value log and its garbage, including
    /// shadowed garbage. The size becomes the baseline if the garbage is at most half of the
    /// garbage limit, which is `percent` of the size.
    pub fn update_baseline(&mut self, all: &Segment, percent: u64) {
        let is_small = !exceeds(all.garbage().saturating_mul(2), all.bytes, percent);
        self.baseline_bytes = if is_small { all.bytes } else { self.baseline_bytes.min(all.bytes) };
    }

    /// Records that space was freed, so that GC may continue.
    pub fn on_space_freed(&mut self) {
        (self.out_of_space, self.low_on_space) = (false, false);
    }

    /// Quarantines the victims among `segments`: GC does not pick them again.
    pub fn quarantine(&mut self, segments: impl IntoIterator<Item = ObjectId>) {
        for segment in segments {
            if self.victims.remove(&segment) {
                self.quarantined.insert(segment);
            }
        }
    }

    /// Tail GC: returns the victims that no table needs to reference any more. A victim is not
    /// needed if all readers see the re-appended entries, and if these entries are in tables.
    /// `oldest_reader` is the lowest sequence number at which a reader may read. All writes up to
    /// the sequence number `flushed` are in tables.
    pub fn obsolete_victims(&self, oldest_reader: SeqNo, flushed: SeqNo) -> BTreeSet<ObjectId> {
        match self.relocated_by {
            Some(relocated_by) if relocated_by <= oldest_reader && relocated_by <= flushed => self.victims.clone(),
            _ => BTreeSet::new(),
        }
    }
}

/// The divisor for shadowed garbage: its limits are a quarter of other amounts. Before GC empties
/// segments, it exposes shadowed garbage if there is more of it than a quarter of the garbage
/// limit, and more than a quarter of the known garbage.
const SHADOWED_FRACTION: u64 = 4;

/// The next step of GC of the value log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcAction {
    /// GC does nothing, because garbage is below its limit.
    Nothing,
    /// GC first compacts shadowed entries away, because much of the garbage is shadowed. If GC
    /// emptied segments now, it would relocate the values of shadowed entries as if they were live.
    Expose,
    /// GC picks victims (segments with garbage) and empties them.
    Collect,
}

/// Returns the next step of GC. `all` are the sums over all segments, `shadowed` is the estimate
/// of the bytes that look live but are shadowed garbage, and `percent` is the garbage limit in
/// percent of all bytes.
///
/// `baseline` is the size of the value log when little of it was garbage. The caller passes it
/// only while the store receives writes. GC then starts later, because values that are live now
/// may soon be garbage: GC computes with a log that is smaller by a ninth, and it starts only if
/// the log has grown by an eighth over `baseline`.
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

/// Returns whether `part` is more than `percent` of `all`. The function calculates with 128 bits,
/// because a damaged manifest may declare any size.
fn exceeds(part: u64, all: u64, percent: u64) -> bool {
    u128::from(part) * 100 > u128::from(all) * u128::from(percent)
}

/// Picks the victims of tail GC if garbage is more than `percent` of all bytes. The victims are
/// the oldest segment and the segments that follow it, as long as each has more than `percent` of
/// garbage. All victims together have at most a quarter of all bytes, because their live values
/// exist twice until the victims are removed. The oldest segment is picked even if it alone is
/// larger. No segment in `spared` is picked.
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

/// Picks the victims of mode *segments*, none of them in `spared`. GC picks victims until the
/// known garbage that remains without them is at most three quarters of `percent` of all bytes.
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
        // GC relocates the live values of this victim to another segment, so the value log becomes
        // smaller by the garbage of the victim only.
        remaining.bytes = remaining.bytes.saturating_sub(segment.garbage());
        chosen.insert(object);
    }
    chosen
}

/// Returns the ratio of the benefit to the cost of emptying a segment. The same amount of garbage
/// counts as a higher benefit in an older segment. The live values of an old segment are likely to
/// stay live, so GC gains little by waiting. In a young segment more values will soon be garbage,
/// so GC can free more bytes there later. Source: Rosenblum and Ousterhout, "The Design and
/// Implementation of a Log-Structured File System", 1992.
fn benefit_per_cost(segment: &Segment, age: u64) -> f64 {
    let live_fraction = segment.live as f64 / segment.bytes.max(1) as f64;
    (1.0 - live_fraction) * (1 + age) as f64 / (1.0 + live_fraction)
}

/// Picks the rewrite of a table that references one of `victims` (segments that GC empties).
/// Returns `None` if every such table is already an input of a compaction.
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
        // A rewrite in place would change the table number, and the runs of level 0 are ordered by
        // table number. Therefore a table of level 0 is compacted into level 1 instead.
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
