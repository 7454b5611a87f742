//! CSV output for plots and further statistics. One file has a line for each record, which is the
//! result of one engine in one workload and round. The other file has a line for each span (period
//! of time) of each record.
use crate::{
    cell::{Latency, LatencyOverTime, OverTime, Row},
    ledger::CAUSES,
    plan::results::Record,
};
use std::collections::BTreeSet;

/// A function that returns a field of a record as text; empty if the figure is unknown.
type Value = fn(&Record) -> String;

/// The columns that precede the columns `device_CAUSE_bytes`. Each has a name and a function that
/// returns the field of a record.
const BEFORE_CAUSES: &[(&str, Value)] = &[
    ("engine", |Record { row, .. }| row.name.clone()),
    ("version", |Record { row, .. }| row.version.clone()),
    ("workload", |Record { row, .. }| row.workload.clone()),
    ("round", |Record { row, .. }| row.round.to_string()),
    ("step", |record| record.step.to_string()),
    ("num", |Record { row, .. }| row.num.to_string()),
    ("key_size", |Record { row, .. }| row.key_size.to_string()),
    ("value_size", |Record { row, .. }| row.value_size.to_string()),
    ("threads", |Record { row, .. }| row.threads.to_string()),
    ("batch", |Record { row, .. }| row.batch.to_string()),
    ("seed", |Record { row, .. }| row.seed.to_string()),
    ("ops", |Record { row, .. }| row.ops.to_string()),
    ("seconds", |Record { row, .. }| optional(row.seconds)),
    ("settle_seconds", |Record { row, .. }| optional(row.settle_seconds)),
    ("micros_per_op", |Record { row, .. }| optional(row.micros_per_op)),
    ("user_mib_per_s", |Record { row, .. }| optional(row.user_mib_per_s)),
    ("stall_seconds", |Record { row, .. }| optional(row.stall_seconds)),
    ("user_bytes", |Record { row, .. }| row.bytes.user.to_string()),
    ("engine_bytes", |Record { row, .. }| optional(row.bytes.engine)),
    ("process_bytes", |Record { row, .. }| optional(row.bytes.process)),
    ("device_bytes", |Record { row, .. }| optional(row.bytes.device)),
];

/// The columns that follow the columns `device_CAUSE_bytes`. Each has a name and a function that
/// returns the field of a record.
const AFTER_CAUSES: &[(&str, Value)] = &[
    ("never_written_bytes", |Record { row, .. }| optional(row.bytes.never_written)),
    ("nand_bytes", |Record { row, .. }| optional(row.bytes.nand)),
    ("wa_engine", |Record { row, .. }| optional(row.wa.engine)),
    ("wa_fs", |Record { row, .. }| optional(row.wa.fs)),
    ("wa1", |Record { row, .. }| optional(row.wa.wa1)),
    ("wa2", |Record { row, .. }| optional(row.wa.wa2)),
    ("wa", |Record { row, .. }| optional(row.wa.total)),
    ("ra", |Record { row, .. }| optional(row.ra)),
    ("sa", |Record { row, .. }| optional(row.sa)),
    ("syncs", |Record { row, .. }| optional(row.syncs.count)),
    ("syncs_blocking", |Record { row, .. }| optional(row.syncs.blocking)),
    ("device_flushes", |Record { row, .. }| optional(row.device_flushes)),
    ("journal_commits", |Record { row, .. }| optional(row.journal_commits)),
    ("space_bytes", |Record { row, .. }| optional(row.space_bytes)),
    ("peak_rss_bytes", |Record { row, .. }| optional(row.peak_rss_bytes)),
    ("peak_anon_bytes", |Record { row, .. }| optional(row.peak_anon_bytes)),
    ("cpu_user_seconds", |Record { row, .. }| optional(row.cpu_seconds.map(|cpu| cpu.user))),
    ("cpu_system_seconds", |Record { row, .. }| optional(row.cpu_seconds.map(|cpu| cpu.system))),
    ("settled", |Record { row, .. }| optional(row.settled)),
    ("disturbed", |Record { row, .. }| optional(row.disturbed)),
    ("error", |Record { row, .. }| optional(row.error.as_ref())),
];

/// The name of a latency figure, and the function that returns this figure.
type Time = (&'static str, fn(&Latency) -> f64);

/// The latency figures of each kind of operation, in µs. The name of a column is `KIND_NAME_us`.
const TIMES: [Time; 5] = [
    ("p50", |times| times.p50),
    ("p99", |times| times.p99),
    ("p999", |times| times.p999),
    ("p9999", |times| times.p9999),
    ("max", |times| times.max),
];

/// Returns the records as CSV in the format of RFC 4180: a header, and one line per record.
pub fn render(records: &[&Record]) -> String {
    render_swept(&records.iter().map(|record| (&[][..], *record)).collect::<Vec<_>>())
}

/// Returns the records of an experiment as CSV. An experiment measures at several points. A point
/// has one label (value) for each axis of the experiment, such as `16B` for axis `value_size`.
/// Each line has first the labels of the record's point, in one column `at_AXIS` per axis, and
/// then the columns of [`render`].
pub fn render_swept(records: &[RecordAtPoint<'_>]) -> String {
    let name = |(name, _): &(&str, Value)| (*name).to_owned();
    let causes = CAUSES.iter().map(|cause| format!("device_{cause}_bytes"));
    let kinds: BTreeSet<&String> = records.iter().flat_map(|(_, record)| record.row.latency_us.keys()).collect();
    let times = kinds.iter().flat_map(|kind| TIMES.map(|(name, _)| format!("{kind}_{name}_us")));
    let names = BEFORE_CAUSES.iter().map(name).chain(causes).chain(AFTER_CAUSES.iter().map(name)).chain(times);
    let mut text = line(axes(records).chain(names));
    for (at, record) in records {
        let row = &record.row;
        let labels = at.iter().map(|(_, label)| label.clone());
        let cell = |(_, value): &(&str, Value)| value(record);
        let causes = CAUSES.iter().map(|cause| caused(row, cause));
        let times = kinds.iter().flat_map(|&kind| TIMES.map(|(_, of)| optional(row.latency_us.get(kind).map(of))));
        let cells = BEFORE_CAUSES.iter().map(cell).chain(causes).chain(AFTER_CAUSES.iter().map(cell)).chain(times);
        text += &line(labels.chain(cells));
    }
    text
}

/// The axes and labels of a point of an experiment, and a record that was measured at this point.
type RecordAtPoint<'a> = (&'a [(String, String)], &'a Record);

/// Returns the names of the columns for the labels: `at_AXIS` for each axis. All records have the
/// same axes, so the first record determines them.
fn axes(records: &[RecordAtPoint<'_>]) -> impl Iterator<Item = String> {
    records.first().map_or(&[][..], |(at, _)| at).iter().map(|(axis, _)| format!("at_{axis}"))
}

/// Returns the figures over time of each record as CSV, with one line per span (period of time).
/// Each line begins with the labels of the record's point, as in [`render_swept`]. Records without
/// figures over time are omitted.
pub fn render_over_time(records: &[RecordAtPoint<'_>]) -> String {
    let had = || {
        records.iter().filter_map(|(at, record)| {
            let Record { row, .. } = record;
            Some((*at, *record, row.over_time.as_ref()?, row.seconds?))
        })
    };
    let kinds: BTreeSet<&String> = had().flat_map(|(_, _, it, _)| it.latency_us.keys()).collect();
    let times = kinds.iter().flat_map(|kind| ["p50", "p99", "max"].map(|name| format!("{kind}_{name}_us")));
    let names = ["engine", "workload", "round", "step", "from_seconds", "to_seconds", "ops"].map(String::from);
    let mut text = line(axes(records).chain(names).chain(times));
    for (at, Record { step, row, .. }, it, seconds) in had() {
        for (span, (from, to)) in it.bounds(seconds).enumerate() {
            let labels = at.iter().map(|(_, label)| label.clone());
            let names = [row.name.clone(), row.workload.clone(), row.round.to_string(), step.to_string()];
            let figures = [from.to_string(), to.to_string(), it.ops[span].to_string()];
            let times = kinds.iter().flat_map(|kind| times_of(it, kind, span));
            text += &line(labels.chain(names).chain(figures).chain(times));
        }
    }
    text
}

fn times_of(it: &OverTime, kind: &str, span: usize) -> [String; 3] {
    let none = LatencyOverTime::default();
    let times = it.latency_us.get(kind).unwrap_or(&none);
    [&times.p50, &times.p99, &times.max].map(|list| optional(list.get(span).copied().flatten()))
}

fn optional(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

/// Returns the number of device bytes with the given cause as text. If the row has bytes by cause
/// but not this cause, the number is 0. If the row has no bytes by cause, the text is empty.
fn caused(row: &Row, cause: &str) -> String {
    let causes = row.bytes.device_by_cause.as_ref();
    optional(causes.map(|causes| causes.get(cause).copied().unwrap_or_default()))
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
    fn every_span_is_a_line() {
        let (_, mut records) = crate::report::tests::sample(1);
        let times =
            LatencyOverTime { p50: vec![Some(1.0), None], p99: vec![Some(2.5), None], max: vec![Some(9.0), None] };
        let over_time = OverTime { span_seconds: 2.0, ops: vec![7, 0], latency_us: [("get".to_owned(), times)].into() };
        records[1].row.over_time = Some(over_time);
        records[1].row.seconds = Some(3.5);
        let at = [("value_size".to_owned(), "16B".to_owned())];
        let text = render_over_time(&records.iter().map(|record| (&at[..], record)).collect::<Vec<_>>());
        let expected = [
            "at_value_size,engine,workload,round,step,from_seconds,to_seconds,ops,get_p50_us,get_p99_us,get_max_us",
            "16B,a,readseq,1,1,0,2,7,1,2.5,9",
            "16B,a,readseq,1,1,2,3.5,0,,,",
        ];
        assert_eq!(text.split_terminator("\r\n").collect::<Vec<_>>(), expected);
    }

    #[test]
    fn records_of_an_experiment_have_the_labels_of_their_point() {
        let (_, records) = crate::report::tests::sample(1);
        let at = [("value_size", "16B"), ("discard", "true")].map(|(axis, label)| (axis.to_owned(), label.to_owned()));
        let text = render_swept(&records.iter().map(|record| (&at[..], record)).collect::<Vec<_>>());
        let mut lines = text.split_terminator("\r\n");
        assert!(lines.next().is_some_and(|line| line.starts_with("at_value_size,at_discard,engine,")), "{text}");
        assert!(lines.clone().count() == records.len() && lines.all(|line| line.starts_with("16B,true,")), "{text}");
    }
}
