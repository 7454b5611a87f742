//! GcMode of the value log: which segments are worth emptying, and which table to rewrite next for it. Pure.
//!
//! There are two collectors. Collector *segments*: a segment that nothing points into goes without being read. Of the others those are chosen that give most space for what has
//! to be moved, until the garbage is well below its limit. Tables that point into a chosen one are rewritten in place, in the
//! order of their keys, and every compaction that passes meanwhile helps: builds move the values out. A table only ever carries
//! on what it holds, under its own sequence, so nothing deleted can come back. What nobody knows to be garbage comes to light first
//! ([`hidden`]).
//!
//! Collector *tail* is WiscKey's: the oldest segments are emptied, and what is alive there is put again with a new sequence
//! (`write/again.rs`). The pointers that this leaves behind are hidden by newer writes; tables that have them are rewritten too.
use super::{
    plan::{Plan, Situation},
    shadow_estimate,
};
use crate::version::{
    KeyRange, TableRef,
    segments::{Segment, Segments},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{LEVELS, SeqNo, TableId, key};
use terrace_storage::placement::ObjectId;

/// A collection that is going on. Guarded by the control lock.
#[derive(Debug, Default)]
pub struct ValueLogGc {
    /// Segments that are being emptied.
    pub victims: BTreeSet<ObjectId>,
    /// By the tail collector: the job that puts again what is alive in them is queued or runs.
    pub putting: bool,
    /// It is over, and this was the last write then: whatever tables point to in the victims is older than what its key has.
    pub put_by: Option<SeqNo>,
    /// Segments that cannot be emptied, because something in them cannot be read. They are left alone until the next opening.
    pub spared: BTreeSet<ObjectId>,
    /// All of the victims are to be emptied, however little garbage is in them, and somebody waits for that.
    pub sorts: bool,
    /// There was no space for it. Until some is given back nothing is collected.
    pub starved: bool,
    /// Bytes of all segments when little was garbage last, or less if there have been less since.
    pub calm_bytes: u64,
    /// What merges have found of garbage that nobody knew of.
    pub found: shadow_estimate::Found,
    /// There was no space to merge anything for the sake of such garbage. Until some is given back nothing is.
    pub cramped: bool,
    /// Tables that could not be merged for it. They are left alone until the next opening.
    pub refused: BTreeSet<TableId>,
}

impl ValueLogGc {
    /// Looks at the log, where no more garbage than that is hidden. It is calm as long as no more than half of what may be garbage is.
    pub fn look(&mut self, all: &Segment, percent: u64) {
        let calm = !exceeds(all.garbage().saturating_mul(2), all.bytes, percent);
        self.calm_bytes = if calm { all.bytes } else { self.calm_bytes.min(all.bytes) };
    }

    /// Somebody has given space back.
    pub fn relieve(&mut self) {
        (self.starved, self.cramped) = (false, false);
    }

    /// Nothing more is tried with `segments`.
    pub fn spare(&mut self, segments: impl IntoIterator<Item = ObjectId>) {
        for segment in segments {
            if self.victims.remove(&segment) {
                self.spared.insert(segment);
            }
        }
    }

    /// Segments to which no table need point any more: nobody reads what is older than `oldest_reader`, and what hides the
    /// pointers is in tables, as all writes up to `flushed` are.
    pub fn spent(&self, oldest_reader: SeqNo, flushed: SeqNo) -> BTreeSet<ObjectId> {
        match self.put_by {
            Some(put_by) if put_by <= oldest_reader && put_by <= flushed => self.victims.clone(),
            _ => BTreeSet::new(),
        }
    }
}

/// Hidden garbage is revealed before segments are emptied where it is more than this part of what may be garbage, and of what is known to be.
const HIDDEN_PART: u64 = 4;

/// What there is to do about garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing: there is not much.
    Nothing,
    /// Much of it is hidden, and emptying segments would move it.
    Reveal,
    /// What is known is to be collected.
    Collect,
}

/// What is due if `hidden` bytes of what seems to be alive are garbage, too, and `percent` of all bytes may be. While others write it may be
/// what makes the log an eighth larger than that, and as much larger than it was when it was `calm`: what is alive now may be garbage by then.
pub fn due(all: &Segment, hidden: u64, percent: u64, calm: Option<u64>) -> Due {
    let known = all.garbage();
    let bytes = if calm.is_some() { all.bytes / 9 * 8 } else { all.bytes };
    let above = exceeds(bytes.saturating_sub(all.but_hidden(hidden).live), bytes, percent);
    if !above || calm.is_some_and(|calm| all.bytes <= calm.saturating_add(calm / 8)) {
        return Due::Nothing;
    }
    let much = exceeds(hidden.saturating_mul(HIDDEN_PART), all.bytes, percent) && hidden > known / HIDDEN_PART;
    if much { Due::Reveal } else { Due::Collect }
}

/// Whether `part` is more than `percent` of `all`. What a manifest says of bytes may be anything.
fn exceeds(part: u64, all: u64, percent: u64) -> bool {
    u128::from(part) * 100 > u128::from(all) * u128::from(percent)
}

/// The tail collector's victims, if garbage is more than `percent` of all bytes: the oldest segment, and those behind it as long
/// as more than `percent` of each is garbage; but no more than a quarter of all bytes, which are there twice for a while.
pub fn oldest(segments: &Segments, spared: &BTreeSet<ObjectId>, percent: u64) -> BTreeSet<ObjectId> {
    let above = |sum: &Segment| exceeds(sum.garbage(), sum.bytes, percent);
    let all = segments.sum_but(spared);
    let wanted = segments.pointed_into().filter(|(object, _)| above(&all) && !spared.contains(object));
    let mut by_age: Vec<_> = wanted.collect();
    by_age.sort_by_key(|(object, _)| object.number());
    let mut bytes = 0;
    let worn = by_age.iter().enumerate().take_while(|(at, (_, segment))| {
        bytes += segment.bytes;
        *at == 0 || above(segment) && bytes * 4 <= all.bytes
    });
    worn.map(|(_, (object, _))| *object).collect()
}

/// The segments to empty, none of those `spared`, so that well less than `percent` of all bytes are known to be garbage.
pub fn victims(segments: &Segments, spared: &BTreeSet<ObjectId>, percent: u64) -> BTreeSet<ObjectId> {
    let all = segments.sum_but(spared);
    let above = |sum: &Segment, percent: u64| exceeds(sum.garbage(), sum.bytes, percent);
    let newest = segments.pointed_into().map(|(object, _)| object.number()).max().unwrap_or(0);
    let mut choice: Vec<(f64, ObjectId, Segment)> = segments
        .pointed_into()
        .filter(|(object, segment)| segment.garbage() * 200 >= segment.bytes * percent && !spared.contains(object))
        .map(|(object, segment)| (worth(&segment, newest - object.number()), object, segment))
        .collect();
    choice.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut left, mut chosen) = (all, BTreeSet::new());
    for (_, object, segment) in choice {
        if !above(&left, percent * 3 / 4) {
            break;
        }
        left.bytes -= segment.garbage(); // what is alive stays, elsewhere
        chosen.insert(object);
    }
    chosen
}

/// What emptying a segment brings for what it costs. Old garbage is worth more: what is still alive beside it will stay so,
/// where the young soon have more. Source: Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File
/// System", 1992.
fn worth(segment: &Segment, age: u64) -> f64 {
    let alive = segment.live as f64 / segment.bytes.max(1) as f64;
    (1.0 - alive) * (1 + age) as f64 / (1.0 + alive)
}

/// Rewrites a table that points into one of `victims`; `None` if none does that can be had now.
pub fn plan(
    situation: &Situation<'_>,
    victims: &BTreeSet<ObjectId>,
    level0: impl FnOnce(&KeyRange<'_>) -> Option<Plan>,
) -> Option<Plan> {
    let points = |table: &&Arc<TableRef>| table.meta.refs.iter().any(|(object, _)| victims.contains(object));
    let plan_of = |(level, table): (usize, &Arc<TableRef>)| Plan {
        only_collects: true,
        ..Plan::in_place(situation, level, vec![table.clone()])
    };
    let levels = (1..LEVELS).rev().flat_map(|level| situation.version.levels[level].tables().map(move |t| (level, t)));
    let wanted = levels.filter(|(_, table)| points(table)).map(plan_of);
    let deep = wanted.into_iter().find(|plan| situation.busy.admits(situation.order, plan));
    deep.or_else(|| {
        // Level 0 is ordered by number, so its tables leave it.
        let table = situation.version.levels[0].tables().find(points)?;
        let (from, to) = (key::user_key(&table.meta.smallest), key::user_key(&table.meta.largest));
        let plan = level0(&KeyRange { from: Some(from), to: Some(to) })?;
        situation.busy.admits(situation.order, &plan).then_some(Plan { only_collects: true, ..plan })
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
            segments.log_ended(LogId(number as u64), *bytes + 56);
            refs.push((ObjectId::Wal(LogId(number as u64)), *live));
        }
        segments.add(&TableMeta { refs, ..TableMeta::unbounded(TableId(99), 1) });
        segments
    }

    fn numbers(of: &[(u64, u64)], percent: u64) -> Vec<u64> {
        victims(&segments(of), &BTreeSet::new(), percent).into_iter().map(ObjectId::number).collect()
    }

    #[test]
    fn the_tail_is_emptied_from_its_end() {
        let oldest_of = |of: &[(u64, u64)]| -> Vec<u64> {
            oldest(&segments(of), &BTreeSet::new(), 20).into_iter().map(ObjectId::number).collect()
        };
        assert_eq!(oldest_of(&[(100, 80), (100, 85)]), [0; 0], "below the limit");
        assert_eq!(oldest_of(&[(100, 95), (100, 30), (100, 99)]), [0], "the oldest, though there is nothing to win");
        let worn = [(100, 50); 9];
        assert_eq!(oldest_of(&worn), [0, 1], "a quarter at most");
        let mut some = worn;
        some[1] = (100, 90);
        assert_eq!(oldest_of(&some), [0], "those behind it only if they are worth it");
    }

    #[test]
    fn a_little_more_can_wait_and_what_is_hidden_comes_first() {
        let all = |live| Segment { bytes: 900, live };
        let of = |live, hidden, calm| due(&all(live), hidden, 20, calm);
        assert_eq!([of(720, 0, None), of(719, 0, None)], [Due::Nothing, Due::Collect]);
        assert_eq!([of(640, 0, Some(0)), of(639, 0, Some(0))], [Due::Nothing, Due::Collect], "28.9 %");
        assert_eq!([of(100, 0, Some(800)), of(100, 0, Some(799))], [Due::Nothing, Due::Collect], "it has hardly grown");
        assert_eq!(
            [of(760, 40, None), of(760, 41, None)],
            [Due::Nothing, Due::Collect],
            "it is garbage, too, but little"
        );
        assert_eq!([of(760, 45, None), of(760, 46, None)], [Due::Collect, Due::Reveal], "5 %");
        assert_eq!([of(400, 125, None), of(400, 126, None)], [Due::Collect, Due::Reveal], "a quarter of what is known");
        let strange = Segment { bytes: u64::MAX, live: u64::MAX };
        assert_eq!(due(&strange, u64::MAX, 99, None), Due::Reveal);
    }

    #[test]
    fn a_log_is_calm_while_little_of_it_is_garbage() {
        let mut collecting = ValueLogGc::default();
        let mut look = |bytes, live| {
            collecting.look(&Segment { bytes, live }, 20);
            collecting.calm_bytes
        };
        assert_eq!(look(1000, 500), 0, "who knows how it was before");
        assert_eq!([look(1000, 900), look(1500, 1340), look(1200, 800)], [1000, 1000, 1000], "deletes and writes");
        assert_eq!(
            [look(800, 700), look(2000, 1700), look(3000, 2700)],
            [800, 800, 3000],
            "what is given back, and a fill"
        );
    }

    #[test]
    fn a_pointer_is_spent_when_nobody_can_see_it_and_what_hides_it_is_in_tables() {
        let mut collecting = ValueLogGc { victims: [ObjectId::Wal(LogId(1))].into(), ..ValueLogGc::default() };
        assert!(collecting.spent(SeqNo::MAX, SeqNo::MAX).is_empty(), "not put again yet");
        collecting.put_by = Some(SeqNo(10));
        let spent = |reader, flushed| !collecting.spent(SeqNo(reader), SeqNo(flushed)).is_empty();
        assert_eq!([spent(10, 10), spent(9, 10), spent(10, 9)], [true, false, false]);
    }

    #[test]
    fn only_what_pays_is_emptied_and_only_when_there_is_need() {
        assert_eq!(numbers(&[], 20), [0; 0]);
        assert_eq!(numbers(&[(100, 95), (100, 30), (100, 99)], 20), [1], "the others hold next to no garbage");
        assert_eq!(numbers(&[(100, 50), (100, 50), (100, 90)], 20), [0, 1]);
        assert_eq!(numbers(&[(100, 50), (100, 50), (100, 50), (100, 0)], 20).len(), 3, "what is dead goes by itself");
        assert_eq!(numbers(&[(100, 20), (1000, 960)], 10), [0], "until it is well below the limit");
    }
}
