//! Selects the crash states to judge. A crash state is one disk content that a power cut could
//! have left. The input is a history: the requests that a device received while a store was
//! filled. The selection performs no I/O. The history, its seed and a number determine a crash
//! state.
//!
//! The requests between two flushes are a *window*. Each request in the window of the power cut
//! may have reached the medium or not, whole or in part, in any order:
//!
//! ```text
//! requests   w w w F w w w w w w F w w X        F flush, X power cut
//! durable    ──────│
//! any subset       └── window ──┘               of the requests in the window of the cut
//! ```
//!
//! One half of the crash states covers all subsets of the requests in small windows. The other
//! half is drawn at random: first a window, then the moment of the power cut in it, then a subset
//! of the requests before the cut. Large windows are drawn more often, because many requests can
//! be reordered in more ways.
use serde::{Deserialize, Serialize};
use std::ops::Range;
use terrace_device::record::{Event, Kept, Kind};
use terrace_sim::Rng;

/// Maximum number of requests in a small window. For a small window, all subsets of its requests
/// are judged.
const SMALL: usize = 6;
/// Sizes of sectors in bytes. Of a torn write, some sectors reached the medium and others did not.
const SECTORS: [u64; 2] = [512, 4096];
/// Offset in bytes of the block that contains ext4's superblock. This block is never torn. ext4
/// overwrites it in place and cannot mount without it, so a torn superblock would destroy the file
/// system before a store is opened. ext4 relies on drives that write a block of 4096 bytes
/// atomically, and the recorded device reports that it does. All other blocks may be torn in
/// smaller units.
const WRITTEN_WHOLE: u64 = 0;

/// A crash state, selected from recorded events (requests to a device, and marks). It contains all
/// events before `until`. Of the events between `until` and `cut`, it contains only those in
/// `kept`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrashState {
    /// Index of the first event that the power cut may have lost. All events before it are on the
    /// medium.
    pub until: usize,
    /// Index of the first event after the power cut.
    pub cut: usize,
    /// The events between `until` and `cut` that reached the medium.
    pub kept: Vec<Part>,
    /// Number in the last mark before the power cut. A mark records the number of a promised batch.
    /// The store must contain all batches up to this number.
    pub promised: u64,
}

/// A change of data, such as a write, that reached the medium whole or in part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Index of the event in the history.
    pub event: usize,
    /// The byte ranges that reached the medium, relative to the start of the event; `None` for all
    /// bytes.
    pub parts: Option<Vec<Range<u64>>>,
}

impl From<&Part> for Kept {
    fn from(part: &Part) -> Kept {
        Kept { event: part.event, parts: part.parts.clone() }
    }
}

/// A window: the requests between two flushes of the device.
struct Window {
    /// Indexes of the events after one flush and before the next.
    events: Range<usize>,
    /// Indexes of the events that change data: writes, discards and zero writes.
    changes: Vec<usize>,
}

/// Selects crash states of one recorded history. An event of the history is a request to the
/// device, or a mark (the number of a batch that must survive any later power cut).
pub struct CrashStateSelector<'a> {
    events: Events<'a>,
    windows: Vec<Window>,
    /// The small windows (windows with at most [`SMALL`] changes). Each item has the index of a
    /// window and a sum: the count of subsets of the changes, over this window and all small
    /// windows before it.
    small: Vec<(usize, u64)>,
    /// For each window, the count of changes in this window and in all windows before it.
    sizes: Vec<usize>,
    /// Number of flushes before a power cut that the device ignores.
    ignored: usize,
    seed: u64,
}

impl<'a> CrashStateSelector<'a> {
    /// Prepares the selection of crash states after the first mark of `events`. A mark is the
    /// number of a batch that must survive any later power cut. If the device ignores the last
    /// `ignored` flushes before a power cut, the cut can also lose the writes before those flushes.
    /// Returns `None` if there is no mark, or no change that a power cut could lose.
    pub fn new(events: &'a [Event], ignored: usize, seed: u64) -> Option<CrashStateSelector<'a>> {
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
        (!windows.is_empty()).then_some(CrashStateSelector {
            events: Events(events),
            windows,
            small,
            sizes,
            ignored,
            seed,
        })
    }

    /// Returns the count of crash states in small windows. It is the sum over these windows of the
    /// count of subsets of their requests.
    pub fn small_states(&self) -> u64 {
        self.small.last().map_or(0, |(_, subsets)| *subsets)
    }

    /// Returns how many crash states must be judged to cover all subsets of small windows. The
    /// number is 0 for a device that ignores flushes, because its crash states are all drawn at
    /// random.
    pub fn states_of_all_subsets(&self) -> u64 {
        if self.ignored == 0 { self.small_states() * 2 } else { 0 }
    }

    /// Returns the index of the subset of requests that crash state `number` contains. Returns
    /// `None` if crash state `number` is drawn at random. After
    /// [`small_states`](CrashStateSelector::small_states) subsets, the same subsets repeat.
    pub fn subset(&self, number: u64) -> Option<u64> {
        (number.is_multiple_of(2) && self.states_of_all_subsets() > 0).then_some(number / 2)
    }

    /// Returns crash state `number`.
    pub fn choice(&self, number: u64) -> CrashState {
        match self.subset(number) {
            Some(nth) => self.exhaustive(nth),
            None => self.sampled(&mut Rng::of(self.seed, number)),
        }
    }

    /// Returns the crash state that contains subset `number` of the requests in a small window.
    /// Consecutive numbers give very different subsets. No subset repeats before all were returned.
    fn exhaustive(&self, number: u64) -> CrashState {
        let all = self.small_states();
        let nth = (u128::from(number) * u128::from(stride(all)) % u128::from(all)) as u64;
        let (at, end) = self.small[self.small.partition_point(|(_, end)| *end <= nth)];
        let window = &self.windows[at];
        let subset = end - 1 - nth;
        let kept = window.changes.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1);
        let kept = kept.map(|(_, event)| Part { event: *event, parts: None }).collect();
        self.events.state(window.events.start, window.events.end, kept)
    }

    fn sampled(&self, rng: &mut Rng) -> CrashState {
        let nth = rng.below(self.sizes[self.sizes.len() - 1]);
        let window = &self.windows[self.sizes.partition_point(|end| *end <= nth)];
        let cut = window.events.start + rng.below(window.events.len() + 1);
        let changes = &window.changes[..window.changes.partition_point(|event| *event < cut)];
        self.events.lose(window.events.start, cut, changes, rng)
    }
}

/// Returns a crash state for a power cut at the end of a history, on a device that ignored the
/// last `ignored` flushes. Equal seeds give equal crash states.
pub fn end(events: &[Event], ignored: usize, seed: u64) -> CrashState {
    let flushes = events.iter().enumerate().rev().filter(|(_, event)| event.kind == Kind::Flush);
    let until = flushes.map(|(at, _)| at + 1).nth(ignored).unwrap_or(0);
    let changes: Vec<usize> = (until..events.len()).filter(|at| is_change(&events[*at])).collect();
    Events(events).lose(until, events.len(), &changes, &mut Rng::new(seed))
}

/// Returns the crash state in which no request is lost.
pub fn everything(events: &[Event]) -> CrashState {
    Events(events).state(events.len(), events.len(), Vec::new())
}

/// A recorded history: all of its events, in order.
struct Events<'a>(&'a [Event]);

impl Events<'_> {
    /// Returns a crash state that contains every event before `until`. The events `changes` between
    /// `until` and `cut` were in the drive's write cache at the power cut, and the crash state
    /// contains some of them. `rng` draws which ones, by one of several models of a cache.
    fn lose(&self, until: usize, cut: usize, changes: &[usize], rng: &mut Rng) -> CrashState {
        let one = rng.below(changes.len().max(1));
        let how = rng.below(8);
        let mut kept = Vec::new();
        for (nth, event) in changes.iter().enumerate() {
            let keep = match how {
                0 => false,
                1 => true,
                2 => nth != one,
                3 => nth == one,
                4 => nth < one, // a cache that writes in order
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

    /// Returns the byte ranges of a torn write that reached the medium. Each sector of the write
    /// reached it with a probability of one half.
    fn parts(&self, event: usize, sector: u64, rng: &mut Rng) -> Vec<Range<u64>> {
        let Event { offset, len, .. } = self.0[event];
        let sector = if offset == WRITTEN_WHOLE { 4096 } else { sector };
        let sectors = (0..len / sector).filter(|_| rng.chance(1, 2));
        sectors.map(|nth| nth * sector..(nth + 1) * sector).collect()
    }

    fn state(&self, until: usize, cut: usize, kept: Vec<Part>) -> CrashState {
        let marks = self.0[..cut].iter().rev();
        let promised = marks.filter(|event| event.kind == Kind::Mark).map(|event| event.offset).next();
        CrashState { until, cut, kept, promised: promised.unwrap_or(0) }
    }
}

fn is_change(event: &Event) -> bool {
    matches!(event.kind, Kind::Write | Kind::Discard | Kind::Zero)
}

/// Returns the windows for a device that ignores the last `ignored` flushes before a power cut. A
/// window of the result consists of one of `windows` and the `ignored` windows before it, because
/// the ignored flushes do not separate them.
fn merged(windows: &[Window], ignored: usize) -> Vec<Window> {
    let merge = |end: usize| {
        let first = &windows[end.saturating_sub(ignored)];
        let changes = windows[end.saturating_sub(ignored)..=end].iter().flat_map(|window| window.changes.clone());
        Window { events: first.events.start..windows[end].events.end, changes: changes.collect() }
    };
    (0..windows.len()).map(merge).collect()
}

/// Returns a number that is coprime to `all` and near 0.618 × `all` (the golden section). Steps of
/// this size modulo `all` visit every number below `all` once, and neighbouring steps are far
/// apart.
fn stride(all: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let wanted = (all as f64 * 0.618) as u64;
    (wanted.max(1)..).find(|stride| gcd(*stride, all) == 1).expect("a number above `all` is coprime to it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, sync::Arc};
    use terrace_device::{
        BlockDevice, Memory, Stream,
        record::{Past, Recorder},
    };

    /// Records a history. `windows` contains the number of writes between each two flushes. A mark
    /// (the number of a batch that must survive) follows each flush, so the first window precedes
    /// all marks.
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
    fn every_subset_of_every_small_window_is_covered_once() {
        let past = past(&[9, 2, 0, 3, 7, 1]);
        let chooser = CrashStateSelector::new(past.events(), 0, 1).unwrap();
        assert_eq!((chooser.small_states(), chooser.states_of_all_subsets()), (4 + 8 + 2, 28));
        let states = (0..14).map(|number| chooser.choice(2 * number));
        let seen: BTreeSet<_> = states.map(|c| (c.until, c.cut, format!("{:?}", c.kept), c.promised)).collect();
        assert_eq!(seen.len(), 14, "{seen:#?}");
        assert!(seen.iter().all(|(until, ..)| *until >= 10), "nothing before the first mark: {seen:#?}");
    }

    #[test]
    fn flushed_writes_are_present_and_the_promised_batch_is_known() {
        let past = past(&[3, 20, 1, 12, 4]);
        let chooser = CrashStateSelector::new(past.events(), 0, 7).unwrap();
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
        assert_ne!(
            CrashStateSelector::new(past.events(), 0, 8).unwrap().choice(1),
            chooser.choice(1),
            "the seed counts"
        );
    }

    #[test]
    fn a_device_that_ignores_flushes_loses_writes_before_them() {
        let past = past(&[3, 4, 5, 6, 7]);
        let chooser = CrashStateSelector::new(past.events(), 2, 7).unwrap();
        let across = |choice: &CrashState| {
            past.events()[choice.until..choice.cut].iter().filter(|event| event.kind == Kind::Flush).count()
        };
        assert!((0..100).any(|number| across(&chooser.choice(number)) == 2));
        assert!((0..100).all(|number| across(&chooser.choice(number)) <= 2));
    }

    #[test]
    fn a_cut_at_the_end_keeps_flushed_writes_and_any_part_of_the_rest() {
        let past = past(&[3, 4]);
        assert!((0..20).all(|seed| end(past.events(), 0, seed).kept.is_empty()), "a flush was the last request");
        let ends: Vec<CrashState> = (0..200).map(|seed| end(past.events(), 1, seed)).collect();
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
        assert!(CrashStateSelector::new(Past::open(&dir.path().join("past")).unwrap().events(), 0, 1).is_none());
    }
}
