//! Collection of the value log: which segments are worth emptying, and which table to rewrite next for it. Pure.
//!
//! A segment that nothing points into goes without being read. Of the others those are chosen that give most space for what has
//! to be moved, until the garbage is well below its limit. Tables that point into a chosen one are rewritten in place, in the
//! order of their keys, and every compaction that passes meanwhile helps: builds move the values out. A table only ever carries
//! on what it holds, under its own sequence, so nothing deleted can come back.
use super::plan::{Plan, Situation};
use crate::version::{
    KeyRange, TableRef,
    segments::{Segment, Segments},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{LEVELS, key};
use terrace_storage::placement::ObjectId;

/// The segments to empty, if garbage is more than `percent` of all bytes; none if it is not.
pub fn victims(segments: &Segments, percent: u64) -> BTreeSet<ObjectId> {
    let all = segments.sum();
    let above = |sum: &Segment, percent: u64| sum.garbage() * 100 > sum.bytes * percent;
    if !above(&all, percent) {
        return BTreeSet::new();
    }
    let newest = segments.pointed_into().map(|(object, _)| object.number()).max().unwrap_or(0);
    let mut choice: Vec<(f64, ObjectId, Segment)> = segments
        .pointed_into()
        .filter(|(_, segment)| segment.garbage() * 200 >= segment.bytes * percent)
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
        level,
        output_level: level,
        pointer: table.meta.largest.clone(),
        upper: vec![table.clone()],
        lower: Vec::new(),
        grandparents: Vec::new(),
        version: Arc::clone(situation.version),
        trivial_move: false,
        number: None,
    };
    let levels = (1..LEVELS).rev().flat_map(|level| situation.version.levels[level].tables().map(move |t| (level, t)));
    let wanted = levels.filter(|(_, table)| points(table)).map(plan_of);
    let deep = wanted.into_iter().find(|plan| situation.busy.admits(situation.order, plan));
    deep.or_else(|| {
        // Level 0 is ordered by number, so its tables leave it.
        let table = situation.version.levels[0].tables().find(points)?;
        let (from, to) = (key::user_key(&table.meta.smallest), key::user_key(&table.meta.largest));
        level0(&KeyRange { from: Some(from), to: Some(to) }).filter(|plan| situation.busy.admits(situation.order, plan))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::{LogId, TableId};
    use terrace_storage::placement::TableMeta;

    fn segments(of: &[(u64, u64)]) -> Segments {
        let mut segments = Segments::default();
        let mut refs = Vec::new();
        for (number, (bytes, live)) in of.iter().enumerate() {
            segments.log_ended(LogId(number as u64), *bytes);
            refs.push((ObjectId::Wal(LogId(number as u64)), *live));
        }
        segments.add(&TableMeta { refs, ..TableMeta::unbounded(TableId(99), 1) });
        segments
    }

    fn numbers(of: &[(u64, u64)], percent: u64) -> Vec<u64> {
        victims(&segments(of), percent).into_iter().map(ObjectId::number).collect()
    }

    #[test]
    fn only_what_pays_is_emptied_and_only_when_there_is_need() {
        assert_eq!(numbers(&[], 20), [0; 0]);
        assert_eq!(numbers(&[(100, 80), (100, 85)], 20), [0; 0], "below the limit");
        assert_eq!(numbers(&[(100, 95), (100, 30), (100, 99)], 20), [1], "the others hold next to no garbage");
        assert_eq!(numbers(&[(100, 50), (100, 50), (100, 90)], 20), [0, 1]);
        assert_eq!(numbers(&[(100, 50), (100, 50), (100, 50), (100, 0)], 20).len(), 3, "what is dead goes by itself");
        assert_eq!(numbers(&[(100, 20), (1000, 960)], 10), [0], "until it is well below the limit");
    }
}
