//! The metrics of a row (the result of one engine in one workload and round), by the names that
//! experiments use.
use crate::{
    cell::{Latency, Row, SyncRow},
    measure::Kind,
    report,
};
use serde::{Deserialize, Deserializer, de::Error};

/// A metric: the way to find its value in a row, and its title and unit.
#[derive(Debug)]
pub struct Metric {
    /// Name of the metric in experiments.
    pub name: &'static str,
    /// Title of a plot's axis that shows the metric.
    pub title: &'static str,
    /// Unit of the metric; empty for ratios and counts.
    pub unit: &'static str,
    /// A function that returns the metric of a row; `None` if it is unknown.
    pub of: fn(&Row) -> Option<f64>,
}

impl Metric {
    /// Returns whether the metric is a time or a rate. Other programs that use the machine change
    /// such a metric. The unit of such a metric ends in `s` (seconds).
    pub fn is_of_time(&self) -> bool {
        self.unit.ends_with('s')
    }
}

/// A metric, decoded from its name. For an unknown name, the error lists the known names.
#[derive(Clone, Copy, Debug)]
pub struct MetricName(pub &'static Metric);

impl<'de> Deserialize<'de> for MetricName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MetricName, D::Error> {
        let name = String::deserialize(deserializer)?;
        find(&name).map(MetricName).map_err(D::Error::custom)
    }
}

/// Returns the metric called `name`. The error lists all metrics.
pub fn find(name: &str) -> Result<&'static Metric, String> {
    LIST.iter().find(|metric| metric.name == name).ok_or_else(|| {
        let names: Vec<_> = LIST.iter().map(|metric| metric.name).collect();
        format!("unknown metric {name:?}; the metrics are {}", names.join(", "))
    })
}

const fn metric(name: &'static str, title: &'static str, unit: &'static str, of: fn(&Row) -> Option<f64>) -> Metric {
    Metric { name, title, unit, of }
}

/// All metrics.
pub const LIST: &[Metric] = &[
    metric("micros", "time per operation", "µs", |row| row.micros_per_op),
    metric("micros_settled", "settled time per operation", "µs", report::micros_settled),
    metric("seconds", "time until the last operation", "s", |row| row.seconds),
    metric("kops", "operations per second", "1000/s", |row| Some(row.ops as f64 / row.seconds? / 1000.0)),
    metric("mib_per_s", "user bytes per second", "MiB/s", |row| row.user_mib_per_s),
    metric("p1", "1st percentile of the operation latency", "µs", |row| Some(latency(row)?.p1)),
    metric("p5", "5th percentile of the operation latency", "µs", |row| Some(latency(row)?.p5)),
    metric("p50", "median operation latency", "µs", |row| Some(latency(row)?.p50)),
    metric("p95", "95th percentile of the operation latency", "µs", |row| Some(latency(row)?.p95)),
    metric("p99", "99th percentile of the operation latency", "µs", |row| Some(latency(row)?.p99)),
    metric("p999", "99.9th percentile of the operation latency", "µs", |row| Some(latency(row)?.p999)),
    metric("write_p99", "99th percentile of the write latency", "µs", |row| Some(write_latency(row)?.p99)),
    metric("write_p999", "99.9th percentile of the write latency", "µs", |row| Some(write_latency(row)?.p999)),
    metric("write_p9999", "99.99th percentile of the write latency", "µs", |row| Some(write_latency(row)?.p9999)),
    metric("write_max", "maximum write latency", "µs", |row| Some(write_latency(row)?.max)),
    metric("stall_seconds", "write stalls", "s", |row| row.stall_seconds),
    metric("wa_engine", "engine bytes / user bytes", "", |row| row.wa.engine),
    metric("wa_process", "process bytes / user bytes", "", |row| {
        ratio(row.bytes.process? as f64, row.bytes.user as f64)
    }),
    metric("wa_fs", "device bytes / engine bytes", "", |row| row.wa.fs),
    metric("wa1", "WA1: device bytes / user bytes", "", |row| row.wa.wa1),
    metric("wa2", "WA2: flash bytes / device bytes", "", |row| row.wa.wa2),
    metric("wa", "WA: flash bytes / user bytes", "", |row| row.wa.total),
    metric("ra", "bytes read / bytes returned", "", |row| row.ra),
    metric("sa", "bytes occupied / live user bytes", "", |row| row.sa),
    metric("user_mib", "user bytes", "MiB", |row| mebibytes(Some(row.bytes.user))),
    metric("engine_mib", "engine bytes", "MiB", |row| mebibytes(row.bytes.engine)),
    metric("process_mib", "process bytes", "MiB", |row| mebibytes(row.bytes.process)),
    metric("device_mib", "device bytes", "MiB", |row| mebibytes(row.bytes.device)),
    metric("device_read_mib", "bytes read from the device", "MiB", |row| mebibytes(row.bytes.device_read)),
    metric("metadata_mib", "device bytes of file system metadata", "MiB", |row| {
        let causes = row.bytes.device_by_cause.as_ref()?;
        let own = ["directory", "metadata", "journal"].map(|cause| causes.get(cause).copied().unwrap_or(0));
        mebibytes(Some(own.iter().sum()))
    }),
    metric("nand_mib", "flash bytes", "MiB", |row| mebibytes(row.bytes.nand)),
    metric("space_mib", "bytes occupied", "MiB", |row| mebibytes(row.space_bytes)),
    metric("space_peak_mib", "peak bytes occupied", "MiB", |row| mebibytes(row.space_peak_bytes)),
    metric("syncs", "syncs", "", |row| row.syncs.count.map(|count| count as f64)),
    metric("syncs_blocking", "blocking syncs", "", |row| row.syncs.blocking.map(|count| count as f64)),
    metric("table_syncs", "syncs of SSTables", "", |row| Some((*row.syncs.kinds.get("tables")?)?.count as f64)),
    metric("flush_syncs", "syncs of flushed SSTables", "", |row| Some(table_syncs(row, "flush")?.count as f64)),
    metric("compaction_syncs", "syncs of compaction outputs", "", |row| {
        Some(table_syncs(row, "compaction")?.count as f64)
    }),
    metric("flushes", "memtable flushes", "", |row| row.flushes.map(|count| count as f64)),
    metric("flushed_mib", "bytes of flushed SSTables", "MiB", |row| {
        mebibytes(row.bytes.engine_by_purpose.as_ref()?.get("flush").copied())
    }),
    metric("table_synced_mib", "bytes of synced SSTables", "MiB", |row| {
        mebibytes((*row.syncs.kinds.get("tables")?)?.bytes)
    }),
    metric("synced_mib", "synced bytes", "MiB", |row| {
        let kinds = row.syncs.kinds.values().copied().collect::<Option<Vec<_>>>()?;
        mebibytes(kinds.iter().map(|kind| kind.bytes).sum())
    }),
    metric("device_flushes", "flushes of the device's cache", "", |row| row.device_flushes.map(|count| count as f64)),
    metric("journal_commits", "commits of the journal", "", |row| row.journal_commits.map(|count| count as f64)),
    metric("cpu_seconds", "processor time", "s", |row| row.cpu_seconds.map(|cpu| cpu.user + cpu.system)),
    metric("durability_cpu_percent", "processor time of the durability thread / processor time", "%", |row| {
        let all = row.cpu_seconds?;
        ratio(100.0 * row.cpu_by_thread.as_ref()?.get(DURABILITY_THREAD)?, all.user + all.system)
    }),
    metric("anon_mib", "peak anonymous memory", "MiB", |row| mebibytes(row.peak_anon_bytes)),
];

/// Name of the engine's thread that makes files durable and commits version edits to the manifest.
/// The kernel reports the thread's processor time under this name.
const DURABILITY_THREAD: &str = "terrace-durable";

/// Returns the syncs of SSTables that the engine wrote for `purpose`, such as a flush.
fn table_syncs<'a>(row: &'a Row, purpose: &str) -> Option<&'a SyncRow> {
    row.syncs.tables_by_purpose.as_ref()?.get(purpose)
}

/// Returns the latency of the kind of operation that occurs most often in the row.
fn latency(row: &Row) -> Option<&Latency> {
    row.latency_us.values().max_by_key(|latency| latency.count)
}

/// Returns the latency of puts. For YCSB F, returns the latency of read-modify-writes.
fn write_latency(row: &Row) -> Option<&Latency> {
    row.latency_us.get(Kind::Put.name()).or_else(|| row.latency_us.get(Kind::Rmw.name()))
}

fn mebibytes(bytes: Option<u64>) -> Option<f64> {
    Some(bytes? as f64 / f64::from(1 << 20))
}

fn ratio(upper: f64, lower: f64) -> Option<f64> {
    (lower > 0.0).then(|| upper / lower)
}
