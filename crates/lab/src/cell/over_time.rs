//! Operations and latencies of a workload over time, for plots. Such plots show write stalls;
//! percentiles over the whole run do not.
use crate::measure::{Kind, Span, Timeline};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Operations and latencies in up to 128 spans (periods of time) of equal length. Each list has
/// one item per span, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// Length of a span in seconds; the last span ends with the last operation.
    pub span_seconds: f64,
    /// Number of operations that finished in each span.
    pub ops: Vec<u64>,
    /// Latencies by kind of operation.
    pub latency_us: BTreeMap<String, LatencyOverTime>,
}

/// Latencies of one kind of operation in µs, with one item per span. A latency is at most 1/16
/// larger than the exact one. A span without such operations has `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyOverTime {
    /// Median in each span.
    pub p50: Vec<Option<f64>>,
    /// 99th percentile in each span.
    pub p99: Vec<Option<f64>>,
    /// Maximum in each span.
    pub max: Vec<Option<f64>>,
}

impl OverTime {
    /// Converts the timeline that was recorded during a run.
    pub fn of(timeline: &Timeline) -> OverTime {
        let spans = timeline.spans();
        let occurred = |kind: &Kind| spans.iter().any(|span| span.latencies(*kind).is_some());
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
            latency_us: Kind::ALL.into_iter().filter(occurred).map(times).collect(),
        }
    }

    /// Returns the start and the end of each span in a run of `seconds`.
    pub fn bounds(&self, seconds: f64) -> impl Iterator<Item = (f64, f64)> {
        let length = self.span_seconds;
        (0..self.ops.len()).map(move |at| (at as f64 * length, ((at + 1) as f64 * length).min(seconds)))
    }

    /// Returns the number of operations per second in each span of a run of `seconds`.
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
