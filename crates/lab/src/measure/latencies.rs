//! Histograms of the latencies of a whole run, one for each kind of operation.
use super::kind::Kind;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Maximum latency that is recorded, in ns: one hour.
pub(super) const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;

/// Latencies by kind of operation, in ns, with three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Vec<Histogram<u64>>);

impl Latencies {
    pub(super) fn new() -> Latencies {
        let bounds_hold = "the bounds are valid constants";
        Latencies(Kind::ALL.map(|_| Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect(bounds_hold)).into())
    }

    pub(super) fn record(&mut self, kind: Kind, time: Duration) {
        self.0[kind as usize].saturating_record(time.as_nanos() as u64);
    }

    pub(super) fn merge(&mut self, other: &Latencies) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.add(theirs).expect("all have the same bounds");
        }
    }

    /// Returns the histograms that are not empty, in ns.
    pub fn recorded(&self) -> impl Iterator<Item = (Kind, &Histogram<u64>)> {
        Kind::ALL.into_iter().zip(&self.0).filter(|(_, histogram)| !histogram.is_empty())
    }
}
