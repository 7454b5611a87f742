//! Converts the statistics of a store to a Python dictionary.
use pyo3::{prelude::*, types::PyDict};
use terrace::{LevelStatistics, Statistics, WorkStatistics};

/// Returns the statistics `of` a store. The names are those of `terrace stats --json`.
pub fn statistics<'py>(py: Python<'py>, of: &Statistics) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("durability", of.durability)?;
    all.set_item("preset", of.preset)?;
    for (name, number) in [
        ("last_sequence", of.last_sequence),
        ("durable_sequence", of.durable_sequence),
        ("memtable_bytes", of.memtable_bytes),
        ("memory_bytes", of.memory.sum()),
        ("sealed_memtables", of.sealed_memtables),
        ("snapshots", of.snapshots),
        ("pending_edits", of.pending_edits),
        ("retained_log_bytes", of.retained_wal_bytes),
        ("shadow_bytes", of.shadow_bytes),
        ("tables_given_up", of.tables_never_synced),
        ("torn_logs", of.torn_wals),
        ("stalls", of.stalls),
    ] {
        all.set_item(name, number)?;
    }
    all.set_item("stall_seconds", of.stall_time.as_secs_f64())?;
    all.set_item("flushes", work(py, &of.flushes)?)?;
    all.set_item("levels", of.levels.iter().map(|l| level(py, l)).collect::<PyResult<Vec<_>>>()?)?;
    let written = PyDict::new(py);
    of.bytes_written.iter().try_for_each(|(purpose, bytes)| written.set_item(purpose, bytes))?;
    all.set_item("bytes_written", written)?;
    let syncs = PyDict::new(py);
    of.syncs.iter().try_for_each(|(kind, made)| syncs.set_item(kind, made.count))?;
    all.set_item("syncs", syncs)?;
    Ok(all)
}

fn level<'py>(py: Python<'py>, of: &LevelStatistics) -> PyResult<Bound<'py, PyDict>> {
    let level = PyDict::new(py);
    level.set_item("tables", of.tables)?;
    level.set_item("bytes", of.bytes)?;
    level.set_item("compactions", work(py, &of.compactions)?)?;
    Ok(level)
}

fn work<'py>(py: Python<'py>, of: &WorkStatistics) -> PyResult<Bound<'py, PyDict>> {
    let work = PyDict::new(py);
    work.set_item("count", of.count)?;
    work.set_item("bytes_read", of.bytes_read)?;
    work.set_item("bytes_written", of.bytes_written)?;
    work.set_item("seconds", of.time.as_secs_f64())?;
    Ok(work)
}
