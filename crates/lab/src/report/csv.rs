//! Every round of every cell, one line each: for plots and for statistics of one's own.
use crate::{
    cell::{Latency, Row},
    ledger::CAUSES,
    plan::results::Record,
};
use std::collections::BTreeSet;

/// The cell of a row; empty where the figure cannot be had.
type Value = fn(&Row) -> String;

/// Columns and how each is had from a row, up to the bytes of the device. Behind these stand its bytes by cause.
const BEFORE_CAUSES: &[(&str, Value)] = &[
    ("engine", |row| row.name.clone()),
    ("version", |row| row.version.clone()),
    ("workload", |row| row.workload.clone()),
    ("round", |row| row.round.to_string()),
    ("num", |row| row.num.to_string()),
    ("key_size", |row| row.key_size.to_string()),
    ("value_size", |row| row.value_size.to_string()),
    ("threads", |row| row.threads.to_string()),
    ("batch", |row| row.batch.to_string()),
    ("seed", |row| row.seed.to_string()),
    ("ops", |row| row.ops.to_string()),
    ("seconds", |row| told(row.seconds)),
    ("settle_seconds", |row| told(row.settle_seconds)),
    ("micros_per_op", |row| told(row.micros_per_op)),
    ("user_mib_per_s", |row| told(row.user_mib_per_s)),
    ("stall_seconds", |row| told(row.stall_seconds)),
    ("user_bytes", |row| row.bytes.user.to_string()),
    ("engine_bytes", |row| told(row.bytes.engine)),
    ("process_bytes", |row| told(row.bytes.process)),
    ("device_bytes", |row| told(row.bytes.device)),
];

/// What stands behind the bytes by cause.
const BEHIND_CAUSES: &[(&str, Value)] = &[
    ("never_written_bytes", |row| told(row.bytes.never_written)),
    ("nand_bytes", |row| told(row.bytes.nand)),
    ("wa_engine", |row| told(row.wa.engine)),
    ("wa_fs", |row| told(row.wa.fs)),
    ("wa1", |row| told(row.wa.wa1)),
    ("wa2", |row| told(row.wa.wa2)),
    ("wa", |row| told(row.wa.total)),
    ("ra", |row| told(row.ra)),
    ("sa", |row| told(row.sa)),
    ("syncs", |row| told(row.syncs.count)),
    ("syncs_blocking", |row| told(row.syncs.blocking)),
    ("device_flushes", |row| told(row.device_flushes)),
    ("journal_commits", |row| told(row.journal_commits)),
    ("space_bytes", |row| told(row.space_bytes)),
    ("peak_rss_bytes", |row| told(row.peak_rss_bytes)),
    ("peak_anon_bytes", |row| told(row.peak_anon_bytes)),
    ("cpu_user_seconds", |row| told(row.cpu_seconds.map(|cpu| cpu.user))),
    ("cpu_system_seconds", |row| told(row.cpu_seconds.map(|cpu| cpu.system))),
    ("settled", |row| told(row.settled)),
    ("disturbed", |row| told(row.disturbed)),
    ("error", |row| told(row.error.as_ref())),
];

/// A name and how it is had from the times of a kind of operation.
type Time = (&'static str, fn(&Latency) -> f64);

/// Of each kind of operation, in µs; columns `KIND_NAME_us`.
const TIMES: [Time; 5] = [
    ("p50", |times| times.p50),
    ("p99", |times| times.p99),
    ("p999", |times| times.p999),
    ("p9999", |times| times.p9999),
    ("max", |times| times.max),
];

/// All records as RFC 4180 has it, with a header.
pub fn render(records: &[&Record]) -> String {
    render_swept(&records.iter().map(|record| (&[][..], *record)).collect::<Vec<_>>())
}

/// The same of an experiment: before each record stand the labels of its point, a column for each axis, `at_AXIS`. All points have the
/// same axes.
pub fn render_swept(records: &[(&[(String, String)], &Record)]) -> String {
    let axes = records.first().map_or(&[][..], |(at, _)| at).iter().map(|(axis, _)| format!("at_{axis}"));
    let name = |(name, _): &(&str, Value)| (*name).to_owned();
    let causes = CAUSES.iter().map(|cause| format!("device_{cause}_bytes"));
    let kinds: BTreeSet<&String> = records.iter().flat_map(|(_, record)| record.row.latency_us.keys()).collect();
    let times = kinds.iter().flat_map(|kind| TIMES.map(|(name, _)| format!("{kind}_{name}_us")));
    let names = BEFORE_CAUSES.iter().map(name).chain(causes).chain(BEHIND_CAUSES.iter().map(name)).chain(times);
    let mut text = line(axes.chain(names));
    for (at, Record { row, .. }) in records {
        let labels = at.iter().map(|(_, label)| label.clone());
        let cell = |(_, value): &(&str, Value)| value(row);
        let causes = CAUSES.iter().map(|cause| caused(row, cause));
        let times = kinds.iter().flat_map(|&kind| TIMES.map(|(_, of)| told(row.latency_us.get(kind).map(of))));
        let cells = BEFORE_CAUSES.iter().map(cell).chain(causes).chain(BEHIND_CAUSES.iter().map(cell)).chain(times);
        text += &line(labels.chain(cells));
    }
    text
}

fn told(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

/// Bytes of the device by a cause; none is zero where causes are known.
fn caused(row: &Row, cause: &str) -> String {
    let causes = row.bytes.device_by_cause.as_ref();
    told(causes.map(|causes| causes.get(cause).copied().unwrap_or_default()))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&cell)).collect::<Vec<_>>().join(",") + "\r\n"
}

fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_a_line_with_all_columns() {
        let (_, mut records) = crate::report::tests::sample(1);
        records[0].row.error = Some("a \"b\", c".into());
        records[0].row.wa.wa1 = Some(1.5);
        let times = Latency { p99: 7.5, max: 9.0, ..Latency::default() };
        records[1].row.latency_us = [("get".to_owned(), times)].into();
        let text = render(&records.iter().collect::<Vec<_>>());
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + records.len());
        assert!(
            lines[0].starts_with("engine,version,workload") && lines[1].ends_with(r#","a ""b"", c",,,,,"#),
            "{text}"
        );
        assert!(lines[0].ends_with(",error,get_p50_us,get_p99_us,get_p999_us,get_p9999_us,get_max_us"), "{text}");
        assert!(lines[2].ends_with(",,0,7.5,0,0,9"), "{text}");
        assert!(lines[1].contains(",1.5,") && lines[2].starts_with("a,,readseq,1,"), "{text}");
        let columns = lines[0].split(',').count();
        assert!(columns > 50 && lines.iter().skip(2).all(|line| line.split(',').count() == columns), "{text}");
        assert!(
            lines[0].contains(",device_bytes,device_tables_bytes,") && lines[0].contains(",device_unknown_bytes,never")
        );
    }

    #[test]
    fn records_of_an_experiment_say_where_they_were_measured() {
        let (_, records) = crate::report::tests::sample(1);
        let at = [("value_size", "16B"), ("discard", "true")].map(|(axis, label)| (axis.to_owned(), label.to_owned()));
        let text = render_swept(&records.iter().map(|record| (&at[..], record)).collect::<Vec<_>>());
        let mut lines = text.split_terminator("\r\n");
        assert!(lines.next().is_some_and(|line| line.starts_with("at_value_size,at_discard,engine,")), "{text}");
        assert!(lines.clone().count() == records.len() && lines.all(|line| line.starts_with("16B,true,")), "{text}");
    }
}
