//! The figures of one engine in one workload, over all rounds.
use super::{
    bytes,
    stats::{Estimate, median},
};
use crate::cell::Row;

/// The figures of one engine in one workload. Each figure is a median over the rounds, or `None`
/// if no round has it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Error of a round that failed. Such a round has no figures.
    pub error: Option<String>,
    /// Time of an operation in one thread, in µs.
    pub micros: Option<Estimate>,
    /// Time of an operation in one thread, in µs. It includes the operation's share of the time
    /// until background work has finished.
    pub micros_settled: Option<Estimate>,
    /// `micros` divided by `micros` of the base in the same round. The base is the engine that all
    /// others are compared with. `None` for the base itself.
    pub ratio: Option<Estimate>,
    /// `micros_settled` divided by `micros_settled` of the base engine in the same round. `None`
    /// for the base itself.
    pub ratio_settled: Option<Estimate>,
    /// Write amplification WA1: bytes written to the device / bytes written by the user.
    pub wa1: Option<f64>,
    /// Write amplification WA2: bytes programmed into flash / bytes written to the device.
    pub wa2: Option<f64>,
    /// Read amplification: bytes read from the device / bytes returned to the user.
    pub ra: Option<f64>,
    /// Space amplification: bytes that the store occupies / bytes of its live keys and values.
    pub sa: Option<f64>,
    /// Number of syncs of all kinds.
    pub syncs: Option<f64>,
    /// 99th percentile of the latency, in µs, for the most frequent kind of operation.
    pub p99: Option<f64>,
    /// 99.9th percentile of the latency, in µs, for the most frequent kind of operation.
    pub p999: Option<f64>,
    /// Peak resident memory in bytes, including mapped files.
    pub rss_bytes: Option<f64>,
    /// Peak anonymous memory in bytes.
    pub anon_bytes: Option<f64>,
    /// Processor time in seconds until background work has finished.
    pub cpu_seconds: Option<f64>,
    /// Written bytes by layer and cause.
    pub bytes: bytes::ByteLine,
}

impl Line {
    pub(super) fn new(engine: &str, rows: &[&Row], base: Option<&[&Row]>) -> Line {
        let good: Vec<&Row> = rows.iter().copied().filter(|row| row.error.is_none()).collect();
        let of = |figure: &dyn Fn(&Row) -> Option<f64>| {
            median(&mut good.iter().filter_map(|&row| figure(row)).collect::<Vec<f64>>())
        };
        let estimate = |figure: fn(&Row) -> Option<f64>| Estimate::of(good.iter().filter_map(|row| figure(row)));
        let ratio = |figure: fn(&Row) -> Option<f64>| Estimate::of(paired(&good, base?, figure));
        Line {
            engine: engine.into(),
            error: rows.iter().find_map(|row| row.error.clone()),
            micros: estimate(micros),
            micros_settled: estimate(micros_settled),
            ratio: ratio(micros),
            ratio_settled: ratio(micros_settled),
            wa1: of(&|row| row.wa.wa1),
            wa2: of(&|row| row.wa.wa2),
            ra: of(&|row| row.ra),
            sa: of(&|row| row.sa),
            syncs: of(&|row| row.syncs.count.map(|count| count as f64)),
            p99: of(&|row| Some(row.latency_us.values().max_by_key(|latency| latency.count)?.p99)),
            p999: of(&|row| Some(row.latency_us.values().max_by_key(|latency| latency.count)?.p999)),
            rss_bytes: of(&|row| row.peak_rss_bytes.map(|bytes| bytes as f64)),
            anon_bytes: of(&|row| row.peak_anon_bytes.map(|bytes| bytes as f64)),
            cpu_seconds: of(&|row| row.cpu_seconds.map(|cpu| cpu.user + cpu.system)),
            bytes: bytes::line(&good),
        }
    }
}

fn micros(row: &Row) -> Option<f64> {
    row.micros_per_op
}

/// Returns the time of an operation in one thread, in µs. The result includes the operation's
/// share of the time until background work has finished.
pub(crate) fn micros_settled(row: &Row) -> Option<f64> {
    let seconds = row.seconds.filter(|&seconds| seconds > 0.0)?;
    Some(row.micros_per_op? * (seconds + row.settle_seconds?) / seconds)
}

/// Returns the ratios of `figure` in `rows` to `figure` in `base`. There is one ratio for each
/// round in which both engines have the figure.
fn paired(rows: &[&Row], base: &[&Row], figure: fn(&Row) -> Option<f64>) -> Vec<f64> {
    let partner = |row: &Row| base.iter().find(|other| other.round == row.round && other.error.is_none());
    rows.iter().filter_map(|row| Some(figure(row)? / figure(partner(row)?)?)).collect()
}
