//! How a workload went, from its beginning to its end: for plots, in which a stall is seen that no percentile shows.
use crate::measure::{Kind, Span, Timeline};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Operations and latencies in spans of equal length, up to 128 of them; each list has an item for each span, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// Length of a span; the last one ends with the last operation.
    pub span_seconds: f64,
    /// Operations that ended in each.
    pub ops: Vec<u64>,
    /// By kind of operation.
    pub latency_us: BTreeMap<String, LatencyOverTime>,
}

/// Times of one kind of operation in µs, at most a sixteenth too large; `None` where none ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyOverTime {
    /// Half took no longer.
    pub p50: Vec<Option<f64>>,
    /// 99 %.
    pub p99: Vec<Option<f64>>,
    /// The longest.
    pub max: Vec<Option<f64>>,
}

impl OverTime {
    /// What `timeline`, of a whole run, holds.
    pub fn of(timeline: &Timeline) -> OverTime {
        let spans = timeline.spans();
        let was_there = |kind: &Kind| spans.iter().any(|span| span.latencies(*kind).is_some());
        let times = |kind: Kind| {
            let at = |percentile: f64| {
                let micros = |span: &Span| Some(span.latencies(kind)?.value_at_percentile(percentile) as f64 / 1000.0);
                spans.iter().map(micros).collect()
            };
            (kind.name().to_owned(), LatencyOverTime { p50: at(50.0), p99: at(99.0), max: at(100.0) })
        };
        OverTime {
            span_seconds: timeline.length().as_secs_f64(),
            ops: spans.iter().map(|span| span.ops).collect(),
            latency_us: Kind::ALL.into_iter().filter(was_there).map(times).collect(),
        }
    }

    /// When each span begins and ends in the run, which took so many seconds.
    pub fn bounds(&self, seconds: f64) -> impl Iterator<Item = (f64, f64)> {
        let length = self.span_seconds;
        (0..self.ops.len()).map(move |at| (at as f64 * length, ((at + 1) as f64 * length).min(seconds)))
    }

    /// Operations per second in each span of the run, which took so many seconds.
    pub fn rates(&self, seconds: f64) -> impl Iterator<Item = f64> {
        self.bounds(seconds).zip(&self.ops).map(|((from, to), ops)| *ops as f64 / (to - from).max(1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn each_span_has_its_operations_and_latencies() {
        let began = Instant::now();
        let mut timeline = Timeline::since(began);
        for (at, micros) in [(1, 3), (2, 5), (24, 900)] {
            timeline.record(Kind::Put, began + Duration::from_millis(at), Duration::from_micros(micros));
            timeline.did(2);
        }
        let over_time = OverTime::of(&timeline.until(Duration::from_millis(25)));
        assert_eq!((over_time.span_seconds, &over_time.ops[..]), (0.01, &[4, 0, 2][..]));
        let rates: Vec<f64> = over_time.rates(0.025).map(f64::round).collect();
        assert_eq!(rates, [400.0, 0.0, 400.0], "the last one is half as long");
        let LatencyOverTime { p50, p99, max } = &over_time.latency_us["put"];
        let near = |is: Option<f64>, micros: f64| is.is_some_and(|is| is >= micros && is < micros * 1.0625);
        assert!(near(p50[0], 3.0) && near(p99[0], 5.0) && near(max[2], 900.0), "{over_time:?}");
        assert_eq!((p50[1], p99[1], max[1], over_time.latency_us.len()), (None, None, None, 1));
    }
}
