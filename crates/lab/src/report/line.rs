//! Figures of one engine in one workload.
use super::{
    bytes,
    stats::{Estimate, median},
};
use crate::cell::Row;

/// The figures of one engine in one workload. They are medians over the rounds; `None` if no round
/// has the figure.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Error of a round that has no figures.
    pub error: Option<String>,
    /// µs per operation in one thread.
    pub micros: Option<Estimate>,
    /// µs per operation in one thread, including the time until background work has finished.
    pub micros_settled: Option<Estimate>,
    /// `micros` / `micros` of the base (the engine that all others are compared with) in the same
    /// round; `None` for the base itself.
    pub ratio: Option<Estimate>,
    /// `micros_settled` / `micros_settled` of the base in the same round; `None` for the base
    /// itself.
    pub ratio_settled: Option<Estimate>,
    /// Bytes on the device / user bytes.
    pub wa1: Option<f64>,
    /// Bytes programmed into flash / bytes on the device, on a virtual drive.
    pub wa2: Option<f64>,
    /// Bytes read / bytes returned to the user.
    pub ra: Option<f64>,
    /// Bytes that the store occupies / bytes of its live keys and values.
    pub sa: Option<f64>,
    /// Number of syncs of all kinds.
    pub syncs: Option<f64>,
    /// 99th percentile of the most frequent kind of operation, in µs.
    pub p99: Option<f64>,
    /// 99.9th percentile of the same kind of operation, in µs.
    pub p999: Option<f64>,
    /// Peak resident memory in bytes, including mapped files.
    pub rss_bytes: Option<f64>,
    /// Peak anonymous memory in bytes.
    pub anon_bytes: Option<f64>,
    /// Processor seconds until background work has finished.
    pub cpu_seconds: Option<f64>,
    /// Bytes by layer and cause.
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

/// Returns the µs per operation in one thread, including the operation's share of the time until
/// background work has finished.
pub(crate) fn micros_settled(row: &Row) -> Option<f64> {
    let seconds = row.seconds.filter(|&seconds| seconds > 0.0)?;
    Some(row.micros_per_op? * (seconds + row.settle_seconds?) / seconds)
}

/// Returns the ratios of `figure` in `rows` to `figure` in `base`, for the rounds that both have.
fn paired(rows: &[&Row], base: &[&Row], figure: fn(&Row) -> Option<f64>) -> Vec<f64> {
    let partner = |row: &Row| base.iter().find(|other| other.round == row.round && other.error.is_none());
    rows.iter().filter_map(|row| Some(figure(row)? / figure(partner(row)?)?)).collect()
}
