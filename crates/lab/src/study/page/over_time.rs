//! Draws pictures of each workload over time: throughput and latencies of all engines, from the
//! first operation to the last.
use super::{
    median_round,
    plot::Picture,
    strips::{Curve, Strip, strips},
};
use crate::{
    cell::Row,
    measure::Kind,
    study::findings::{Entry, Findings},
};
use anyhow::Result;

/// A function that returns the curves of one row (result of a workload) for a picture, the most
/// important curve first.
type Curves<'a> = &'a dyn Fn(&Row) -> Option<Vec<Curve>>;

/// Returns pictures of every workload at the first point of the experiment, if latencies were
/// recorded. One picture shows the throughput. One picture for each kind of operation shows the
/// latencies. Each picture shows only one round: the one with the median duration.
pub fn pictures(findings: &Findings) -> Result<Vec<Picture>> {
    let Some(first) = findings.points.first() else { return Ok(Vec::new()) };
    let entries: Vec<&Entry> = findings.entries.iter().filter(|entry| entry.at == first.at).collect();
    let mut workloads: Vec<&str> = entries.iter().map(|entry| &*entry.workload).collect();
    workloads.dedup();
    let mut pictures = Vec::new();
    for workload in workloads {
        let of = |engine: &str| entries.iter().find(|entry| entry.engine == engine && entry.workload == workload);
        let rows = || findings.experiment.engines().map(|engine| median_round(of(engine)?, |row| row.seconds));
        let mut draw = |what: &str, is_log: bool, curves: Curves<'_>| -> Result<()> {
            let named = findings.experiment.engines().zip(rows()).enumerate();
            let strip = |(index, (engine, row)): (usize, (&str, Option<&Row>))| {
                Some(Strip { engine: engine.into(), index, curves: curves(row?)? })
            };
            let all: Vec<Strip> = named.filter_map(strip).collect();
            if !all.is_empty() {
                let svg = strips(&all, "seconds since the start", is_log)?;
                pictures.push(Picture { title: format!("{workload}: {what}"), svg });
            }
            Ok(())
        };
        draw("1000 operations per second", false, &throughput)?;
        // A kind of operation that occurs only once in the run gives no curve.
        let has = |kind: &Kind| {
            let count = |row: &Row| row.latency_us.get(kind.name()).map_or(0, |latency| latency.count);
            rows().flatten().any(|row| count(row) > 1)
        };
        for kind in Kind::ALL.into_iter().filter(has) {
            let what = format!("99th percentile of the latency of a {} in µs; thin: the maximum", kind.name());
            draw(&what, true, &|row| latencies(row, kind))?;
        }
    }
    Ok(pictures)
}

/// Returns the curve of the throughput over the spans (periods of time) of a run. The last span is
/// omitted if it is shorter than half a span, because it is then too short for a rate.
fn throughput(row: &Row) -> Option<Vec<Curve>> {
    let (it, seconds) = (row.over_time.as_ref()?, row.seconds?);
    let long = |(from, to): (f64, f64)| it.ops.len() == 1 || to - from > it.span_seconds / 2.0;
    let rates = it.rates(seconds).zip(it.bounds(seconds));
    let rates: Vec<_> = rates.map(|(rate, bounds)| long(bounds).then_some(rate / 1000.0)).collect();
    Some(vec![curve(row, &rates)?])
}

fn latencies(row: &Row, kind: Kind) -> Option<Vec<Curve>> {
    let times = row.over_time.as_ref()?.latency_us.get(kind.name())?;
    Some(vec![curve(row, &times.p99)?, curve(row, &times.max)?])
}

/// Returns a curve with a point in the middle of each span (period of time). A span without a
/// figure is a gap, after which a new piece of the curve begins. Returns `None` if there is no
/// point.
fn curve(row: &Row, figures: &[Option<f64>]) -> Option<Curve> {
    let spans: Vec<_> = row.over_time.as_ref()?.bounds(row.seconds?).zip(figures).collect();
    let dot = |((from, to), figure): &((f64, f64), &Option<f64>)| Some(((from + to) / 2.0, (**figure)?));
    let pieces = spans.split(|(_, figure)| figure.is_none()).filter(|piece| !piece.is_empty());
    let curve: Curve = pieces.map(|piece| piece.iter().filter_map(dot).collect()).collect();
    (!curve.is_empty()).then_some(curve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{LatencyOverTime, OverTime};

    /// Returns the result of a run with four spans (periods of time) of one second. The run ends
    /// 0.1 s after the start of the last span. No operation finished in the second span.
    fn row() -> Row {
        let times = vec![Some(5.0), None, Some(7.0), Some(900.0)];
        let times = LatencyOverTime { p50: times.clone(), p99: times.clone(), max: times };
        let latency_us = [("put".to_owned(), times)].into();
        let over_time = OverTime { span_seconds: 1.0, ops: vec![1000, 0, 2000, 1], latency_us };
        Row { seconds: Some(3.1), over_time: Some(over_time), ..Row::default() }
    }

    #[test]
    fn a_stall_is_a_gap_and_a_short_last_span_has_no_rate() {
        let rates = throughput(&row()).unwrap();
        assert_eq!(rates, [vec![vec![(0.5, 1.0), (1.5, 0.0), (2.5, 2.0)]]]);
        let times = latencies(&row(), Kind::Put).unwrap();
        let [first, second] = &times[0][..] else { panic!("two pieces: {times:?}") };
        assert_eq!(first, &[(0.5, 5.0)]);
        assert_eq!((second.len(), second[1].1), (2, 900.0), "the maximum may be the last");
        assert_eq!((times.len(), latencies(&row(), Kind::Get)), (2, None));
        let nothing = vec![None; 4];
        assert_eq!(curve(&row(), &nothing), None);
    }
}
