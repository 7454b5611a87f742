//! Which of the states that a power cut could have left are looked at. Pure: a recorded past and a number give a state.
//!
//! Between two flushes lies a *window*: the requests in it may have reached the medium or not, whole or in part, in any
//! order. Half of the states take small windows and go through all subsets of their requests; the other half draws a window
//! by its size, since large ones are where orders are possible, a moment in it, and a subset.
use serde::{Deserialize, Serialize};
use std::ops::Range;
use terrace_device::record::{Event, Kept, Kind};
use terrace_sim::Rng;

/// The most requests in a window of which all subsets are taken.
const SMALL: usize = 6;
/// Units in which a write may be torn.
const SECTORS: [u64; 2] = [512, 4096];
/// The block with ext4's superblock, which it overwrites in place and cannot mount without: torn within, the file system is
/// gone before any store is asked. ext4 relies on drives that write a block of 4096 bytes whole, as ours says it does. For all
/// other blocks we are harsher than that.
const WRITTEN_WHOLE: u64 = 0;

/// A state: what happened for sure, and what of the rest was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Everything before this event is on the medium.
    pub until: usize,
    /// The power was cut before this event.
    pub cut: usize,
    /// What of the events between was kept.
    pub kept: Vec<Part>,
    /// The number of the last mark before the cut.
    pub promised: u64,
}

/// A kept event, whole or in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its number.
    pub event: usize,
    /// Which bytes of it, from its beginning; all, if none are given.
    pub parts: Option<Vec<Range<u64>>>,
}

impl From<&Part> for Kept {
    fn from(part: &Part) -> Kept {
        Kept { event: part.event, parts: part.parts.clone() }
    }
}

/// The requests between two flushes.
struct Window {
    /// Events from the one after a flush up to the next flush.
    events: Range<usize>,
    /// Those that change something.
    changes: Vec<usize>,
}

/// Chooses states of one past.
pub struct Chooser<'a> {
    events: Events<'a>,
    windows: Vec<Window>,
    /// Indexes of windows with few changes, each with the number of subsets up to and including its own.
    small: Vec<(usize, u64)>,
    /// By window, the number of changes up to and including its own.
    sizes: Vec<usize>,
    /// How many flushes the device ignored before each power cut.
    ignored: usize,
    seed: u64,
}

impl<'a> Chooser<'a> {
    /// For states from the first mark of `events` on. A device that ignores `ignored` flushes loses what came after earlier
    /// ones. `None` if nothing was changed between flushes.
    pub fn new(events: &'a [Event], ignored: usize, seed: u64) -> Option<Chooser<'a>> {
        let first = events.iter().position(|event| event.kind == Kind::Mark)?;
        let flushes = events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Flush).map(|(at, _)| at);
        let ends: Vec<usize> = flushes.chain([events.len()]).collect();
        let begins = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
        let mut windows: Vec<Window> = begins
            .zip(&ends)
            .map(|(begin, end)| {
                let changes = (begin..*end).filter(|at| is_change(&events[*at])).collect();
                Window { events: begin..*end, changes }
            })
            .filter(|window| window.events.end >= first)
            .collect();
        if ignored > 0 {
            windows = merged(&windows, ignored);
        }
        windows.retain(|window| !window.changes.is_empty());
        let (mut small, mut subsets) = (Vec::new(), 0);
        for (at, window) in windows.iter().enumerate().filter(|(_, window)| window.changes.len() <= SMALL) {
            subsets += 1u64 << window.changes.len();
            small.push((at, subsets));
        }
        let mut sum = 0;
        let sizes = windows.iter().map(|window| {
            sum += window.changes.len();
            sum
        });
        let sizes: Vec<usize> = sizes.collect();
        (!windows.is_empty()).then_some(Chooser { events: Events(events), windows, small, sizes, ignored, seed })
    }

    /// How many states there are in small windows, all subsets of each.
    pub fn small_states(&self) -> u64 {
        self.small.last().map_or(0, |(_, subsets)| *subsets)
    }

    /// After so many states all subsets of small windows came.
    pub fn states_of_all_subsets(&self) -> u64 {
        if self.ignored == 0 { self.small_states() * 2 } else { 0 }
    }

    /// Which of the subsets of small windows state number `number` is, if it is one; from [`small_states`](Chooser::small_states)
    /// on, one that came before.
    pub fn subset(&self, number: u64) -> Option<u64> {
        (number.is_multiple_of(2) && self.states_of_all_subsets() > 0).then_some(number / 2)
    }

    /// State number `number`.
    pub fn choice(&self, number: u64) -> Choice {
        match self.subset(number) {
            Some(nth) => self.exhaustive(nth),
            None => self.sampled(&mut Rng::of(self.seed, number)),
        }
    }

    /// One subset of a small window. Consecutive numbers are far apart, and all subsets come before one comes again.
    fn exhaustive(&self, number: u64) -> Choice {
        let all = self.small_states();
        let nth = (u128::from(number) * u128::from(stride(all)) % u128::from(all)) as u64;
        let (at, end) = self.small[self.small.partition_point(|(_, end)| *end <= nth)];
        let window = &self.windows[at];
        let subset = end - 1 - nth;
        let kept = window.changes.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1);
        let kept = kept.map(|(_, event)| Part { event: *event, parts: None }).collect();
        self.events.state(window.events.start, window.events.end, kept)
    }

    fn sampled(&self, rng: &mut Rng) -> Choice {
        let nth = rng.below(self.sizes[self.sizes.len() - 1]);
        let window = &self.windows[self.sizes.partition_point(|end| *end <= nth)];
        let cut = window.events.start + rng.below(window.events.len() + 1);
        let changes = &window.changes[..window.changes.partition_point(|event| *event < cut)];
        self.events.lose(window.events.start, cut, changes, rng)
    }
}

/// What is left if the power is cut at the end of a past, on a device that ignored the last `ignored` flushes; equal seeds, equal
/// losses.
pub fn end(events: &[Event], ignored: usize, seed: u64) -> Choice {
    let flushes = events.iter().enumerate().rev().filter(|(_, event)| event.kind == Kind::Flush);
    let until = flushes.map(|(at, _)| at + 1).nth(ignored).unwrap_or(0);
    let changes: Vec<usize> = (until..events.len()).filter(|at| is_change(&events[*at])).collect();
    Events(events).lose(until, events.len(), &changes, &mut Rng::new(seed))
}

/// All of a past, as if every request had been durable.
pub fn everything(events: &[Event]) -> Choice {
    Events(events).state(events.len(), events.len(), Vec::new())
}

/// A past.
struct Events<'a>(&'a [Event]);

impl Events<'_> {
    /// Everything before `until`, and of the `changes` between it and the cut what one of several kinds of caches keeps.
    fn lose(&self, until: usize, cut: usize, changes: &[usize], rng: &mut Rng) -> Choice {
        let one = rng.below(changes.len().max(1));
        let how = rng.below(8);
        let mut kept = Vec::new();
        for (nth, event) in changes.iter().enumerate() {
            let keep = match how {
                0 => false,
                1 => true,
                2 => nth != one,
                3 => nth == one,
                4 => nth < one, // as a cache that keeps the order
                _ => rng.chance(1, 2),
            };
            let torn = how >= 6 && self.0[*event].kind == Kind::Write && rng.chance(1, 2);
            let parts = torn.then(|| self.parts(*event, SECTORS[how - 6], rng));
            if keep || torn {
                kept.push(Part { event: *event, parts });
            }
        }
        self.state(until, cut, kept)
    }

    /// Some sectors of a write.
    fn parts(&self, event: usize, sector: u64, rng: &mut Rng) -> Vec<Range<u64>> {
        let Event { offset, len, .. } = self.0[event];
        let sector = if offset == WRITTEN_WHOLE { 4096 } else { sector };
        let sectors = (0..len / sector).filter(|_| rng.chance(1, 2));
        sectors.map(|nth| nth * sector..(nth + 1) * sector).collect()
    }

    fn state(&self, until: usize, cut: usize, kept: Vec<Part>) -> Choice {
        let marks = self.0[..cut].iter().rev();
        let promised = marks.filter(|event| event.kind == Kind::Mark).map(|event| event.offset).next();
        Choice { until, cut, kept, promised: promised.unwrap_or(0) }
    }
}

fn is_change(event: &Event) -> bool {
    matches!(event.kind, Kind::Write | Kind::Discard | Kind::Zero)
}

/// Windows that begin `ignored` flushes earlier.
fn merged(windows: &[Window], ignored: usize) -> Vec<Window> {
    let merge = |end: usize| {
        let first = &windows[end.saturating_sub(ignored)];
        let changes = windows[end.saturating_sub(ignored)..=end].iter().flat_map(|window| window.changes.clone());
        Window { events: first.events.start..windows[end].events.end, changes: changes.collect() }
    };
    (0..windows.len()).map(merge).collect()
}

/// A number that has no factor in common with `all`, near its golden section.
fn stride(all: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let wanted = (all as f64 * 0.618) as u64;
    (wanted.max(1)..).find(|stride| gcd(*stride, all) == 1).expect("one above `all` has none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, sync::Arc};
    use terrace_device::{
        BlockDevice, Memory, Stream,
        record::{Past, Recorder},
    };

    /// A past of so many writes between flushes, with a mark after each flush; the first window stands before all marks.
    fn past(windows: &[usize]) -> Past {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("past");
        let recorder = Recorder::new(Arc::new(Memory::new(1 << 20).unwrap()), &file).unwrap();
        for (number, writes) in windows.iter().enumerate() {
            (0..*writes).for_each(|at| recorder.write_at(at as u64 * 8192, &[1; 8192], Stream::default()).unwrap());
            recorder.flush().unwrap();
            recorder.mark(number as u64).unwrap();
        }
        recorder.finish().unwrap();
        Past::open(&file).unwrap()
    }

    #[test]
    fn every_subset_of_every_small_window_comes_once() {
        let past = past(&[9, 2, 0, 3, 7, 1]);
        let chooser = Chooser::new(past.events(), 0, 1).unwrap();
        assert_eq!((chooser.small_states(), chooser.states_of_all_subsets()), (4 + 8 + 2, 28));
        let states = (0..14).map(|number| chooser.choice(2 * number));
        let seen: BTreeSet<_> = states.map(|c| (c.until, c.cut, format!("{:?}", c.kept), c.promised)).collect();
        assert_eq!(seen.len(), 14, "{seen:#?}");
        assert!(seen.iter().all(|(until, ..)| *until >= 10), "nothing before the first mark: {seen:#?}");
    }

    #[test]
    fn what_was_flushed_is_there_and_what_was_promised_is_known() {
        let past = past(&[3, 20, 1, 12, 4]);
        let chooser = Chooser::new(past.events(), 0, 7).unwrap();
        let (mut torn, mut windows) = (0, BTreeSet::new());
        for number in 0..2000 {
            let choice = chooser.choice(number);
            let events = past.events();
            assert!(choice.until <= choice.cut && events[choice.until - 1].kind == Kind::Flush);
            assert!(
                events[choice.until..choice.cut].iter().all(|event| event.kind != Kind::Flush),
                "a flush in between"
            );
            assert!(choice.kept.iter().all(|part| (choice.until..choice.cut).contains(&part.event)));
            let marks = events[..choice.cut].iter().filter(|event| event.kind == Kind::Mark);
            assert_eq!(choice.promised, marks.map(|event| event.offset).max().unwrap_or(0));
            torn += choice.kept.iter().filter(|part| part.parts.is_some()).count();
            let superblocks = choice.kept.iter().filter(|part| events[part.event].offset == 0);
            let mut parts = superblocks.flat_map(|part| part.parts.clone().unwrap_or_default());
            assert!(parts.all(|part| part.start % 4096 == 0 && part.end % 4096 == 0), "a torn superblock");
            windows.insert(choice.until);
            assert_eq!(choice, chooser.choice(number), "a number is a state");
        }
        assert!(torn > 500 && windows.len() == 4, "{torn} torn, windows at {windows:?}");
        assert_ne!(Chooser::new(past.events(), 0, 8).unwrap().choice(1), chooser.choice(1), "the seed counts");
    }

    #[test]
    fn a_device_that_ignores_flushes_loses_what_came_before_them() {
        let past = past(&[3, 4, 5, 6, 7]);
        let chooser = Chooser::new(past.events(), 2, 7).unwrap();
        let across = |choice: &Choice| {
            past.events()[choice.until..choice.cut].iter().filter(|event| event.kind == Kind::Flush).count()
        };
        assert!((0..100).any(|number| across(&chooser.choice(number)) == 2));
        assert!((0..100).all(|number| across(&chooser.choice(number)) <= 2));
    }

    #[test]
    fn a_cut_at_the_end_keeps_what_was_flushed_and_any_part_of_the_rest() {
        let past = past(&[3, 4]);
        assert!((0..20).all(|seed| end(past.events(), 0, seed).kept.is_empty()), "a flush was the last request");
        let ends: Vec<Choice> = (0..200).map(|seed| end(past.events(), 1, seed)).collect();
        let flushes: Vec<usize> =
            (0..past.events().len()).filter(|at| past.events()[*at].kind == Kind::Flush).collect();
        assert!(ends.iter().all(|end| end.until == flushes[0] + 1 && end.cut == past.events().len()));
        assert!(ends.iter().all(|end| end.promised == 1), "what was promised before the cut, flushed or not");
        for whole in 0..=4 {
            assert!(ends.iter().any(|end| end.kept.len() == whole), "never {whole} of 4");
        }
    }

    #[test]
    fn a_past_without_marks_has_no_states() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(Arc::new(Memory::new(4096).unwrap()), &dir.path().join("past")).unwrap();
        recorder.write_at(0, &[1; 4096], Stream::default()).unwrap();
        recorder.finish().unwrap();
        assert!(Chooser::new(Past::open(&dir.path().join("past")).unwrap().events(), 0, 1).is_none());
    }
}
