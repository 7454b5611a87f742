//! The lists below a result table, which describe how it was measured: settings, deviations of
//! engines, builds, machine, notes and errors.
use crate::{
    machine::Machine,
    plan::{Plan, results::Record},
    report::{figures::figure, stats::median},
    target::{EngineBuild, Settings},
};
use std::{collections::BTreeMap, path::PathBuf};

/// Returns the start times of the first and of the last workload, if known. A reader needs them,
/// because figures of different days are not comparable.
fn dates(records: &[&Record]) -> Option<String> {
    let began = || records.iter().filter_map(|record| record.row.began.as_deref());
    let (first, last) = (began().min()?, began().max()?); // RFC 3339 texts sort by time
    Some(if first == last {
        format!("the workload started at {first}")
    } else {
        format!("workloads started between {first} and {last}")
    })
}

/// Returns the lists below the result table. Each has a title and lines. Lists without lines are
/// omitted.
pub fn of(plan: &Plan, device: &str, records: &[&Record]) -> Vec<(&'static str, Vec<String>)> {
    let spec = plan.spec(plan.round(1, 1).next().expect("a plan has an engine"), PathBuf::new(), None);
    let good = || records.iter().filter(|record| record.row.error.is_none());
    let mut work = format!(
        "{} keys of {} B, values of {} B compressible to {}, {}, {} per write, seed {}",
        spec.num,
        spec.key_size,
        spec.value_size,
        spec.compression_ratio,
        counted(spec.threads as u64, "thread"),
        counted(spec.batch as u64, "change"),
        spec.seed
    );
    if let Some(reads) = spec.reads {
        work += &format!(", {}", counted(reads, "read"));
    }
    if let Some(writes) = spec.writes {
        work += &format!(", {}", counted(writes, "random put"));
    }
    if let Some(processors) = spec.processors {
        work += &format!(
            ", on {} (the others are reserved for the kernel and the drive)",
            counted(processors as u64, "processor")
        );
    }
    if let Some(memory) = spec.memory {
        work += &format!(", reads with a memory limit of {} including the page cache", size(memory));
    }
    if !spec.check_answers {
        work += ", results not checked";
    }
    let terms = [work].into_iter().chain(settings(&spec.settings)).collect();
    let builds =
        by_engine_once(good().filter_map(|record| Some((&record.row.name, build(record.row.build.as_ref()?)))));
    let departures = by_engine_once(
        good().flat_map(|record| record.row.departures.iter().map(|departure| (&record.row.name, departure.clone()))),
    );
    let machine = good().next().map(|record| {
        let machine = &record.row.machine;
        let memory = machine.memory_bytes.map_or_else(|| "unknown".into(), size);
        let cores = counted(machine.cores as u64, "processor");
        let reclaims = if machine.reclaims_idle { ", of which the kernel reclaims idle pages" } else { "" };
        let Machine { cpu, kernel, file_system, .. } = machine;
        format!("{cpu}, {cores}, {memory} of memory{reclaims}, Linux {kernel}; {file_system}")
    });
    let cost = |pick: fn(&crate::cell::DriverCost) -> f64| {
        median(&mut good().filter_map(|record| record.row.driver.as_ref().map(pick)).collect::<Vec<_>>())
    };
    let driver = cost(|driver| driver.ns_per_op).map(|ns| {
        let [ns, timed, check, pair] = [
            Some(ns),
            cost(|driver| driver.ns_per_op_with_latency),
            cost(|driver| driver.ns_per_check),
            cost(|driver| driver.ns_per_pair),
        ]
        .map(figure);
        let recorded = if spec.histogram { "recorded" } else { "not recorded" };
        format!(
            "its own cost, included above: {ns} ns per operation, {timed} with latency, which was {recorded}; \
             {check} to check a read, {pair} a pair of a scan"
        )
    });
    let errors = by_engine_once(
        records.iter().filter_map(|record| Some((&record.row.name, of_row(record, record.row.error.as_ref()?)))),
    );
    let place = [format!("device {device}")].into_iter().chain(machine).chain(dates(records)).collect();
    let sections = [
        ("Settings", terms),
        ("Departures", departures),
        ("Builds", builds),
        ("Machine", place),
        ("Driver", driver.into_iter().collect()),
        ("Notes", notes(records)),
        ("Errors", errors),
    ];
    sections.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
}

/// Returns a description of the common settings, as lines.
pub fn settings(settings: &Settings) -> Vec<String> {
    let (start, slow, stop) = settings.l0_triggers;
    let filter = match settings.bloom_bits {
        0 => "no filter".into(),
        bits => format!("Bloom filter of {bits} bits"),
    };
    let verify = if settings.verify_checksums { "verify" } else { "do not verify" };
    vec![
        format!(
            "memtables {}, files {}, level 1 {}, level 0 triggers {start}/{slow}/{stop}, {} open files",
            size(settings.write_buffer_size),
            size(settings.max_file_size),
            size(settings.level_base),
            settings.max_open_files
        ),
        format!(
            "blocks {}, block cache {}, {filter}, compression {}, reads {verify} checksums",
            size(settings.block_size),
            size(settings.cache_size),
            settings.compression
        ),
        "synced only if the workload syncs".into(),
    ]
}

fn build(build: &EngineBuild) -> String {
    let describe_fact = |fact: Option<bool>, yes: &str, no: &str, unknown: &str| match fact {
        Some(true) => yes.to_owned(),
        Some(false) => no.to_owned(),
        None => unknown.to_owned(),
    };
    format!(
        "{} ({}), {}, {}",
        build.version,
        build.source,
        describe_fact(build.hardware_crc, "hardware CRC", "software CRC", "CRC unknown"),
        describe_fact(build.assertions, "with assertions", "without assertions", "assertions unknown")
    )
}

/// Returns three kinds of notes: the notes of all rows, the rows whose background work did not
/// finish in time, and the load of the machine by other programs.
fn notes(records: &[&Record]) -> Vec<String> {
    let noted = records.iter().flat_map(|record| {
        let row = &record.row;
        let unsettled = (row.settled == Some(false)).then(|| "background work did not finish in time".to_owned());
        row.notes.iter().cloned().chain(unsettled).map(|note| (&row.name, of_row(record, &note)))
    });
    let mut notes = by_engine_once(noted);
    let disturbed: Vec<_> = records.iter().filter(|record| record.row.disturbed == Some(true)).collect();
    if !disturbed.is_empty() {
        let most = disturbed.iter().filter_map(|record| record.others).fold(0.0, f64::max);
        notes.push(format!(
            "disturbed: in {} of {} measurements other processes used up to {most:.2} processors",
            disturbed.len(),
            records.len()
        ));
    }
    let loads = records.iter().flat_map(|record| [record.row.load_before, record.row.load_after]).flatten();
    let (low, high) = loads.fold((f64::INFINITY, 0.0_f64), |(low, high), load| (low.min(load), high.max(load)));
    if low <= high {
        notes.push(format!("load average between {low:.1} and {high:.1}"));
    }
    notes
}

fn of_row(record: &Record, text: &str) -> String {
    format!("{} in round {}: {text}", record.row.workload, record.row.round)
}

/// Returns one line `engine: text` for each text. Lines that are equal appear once.
fn by_engine_once<'a>(texts: impl Iterator<Item = (&'a String, String)>) -> Vec<String> {
    let mut by_engine: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (engine, text) in texts {
        let known = by_engine.entry(engine).or_default();
        if !known.contains(&text) {
            known.push(text);
        }
    }
    by_engine.iter().flat_map(|(engine, texts)| texts.iter().map(move |text| format!("{engine}: {text}"))).collect()
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Formats bytes in the largest suitable unit.
pub(crate) fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let scaled = bytes as f64 / f64::from(1 << shift);
        if scaled >= 1.0 {
            return format!("{} {unit}", (scaled * 10.0).round() / 10.0);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_spelled_out() {
        let text = settings(&Settings { bloom_bits: 0, level_base: 10 << 20, ..Settings::default() }).join("; ");
        for part in ["memtables 4 MiB", "no filter", "do not verify", "4/8/12", "level 1 10 MiB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!([size(1000), size(1536), size(u64::from(u32::MAX))], ["1000 B", "1.5 KiB", "4 GiB"]);
        let known =
            EngineBuild { version: "1".into(), source: "jar".into(), hardware_crc: Some(false), assertions: None };
        assert_eq!(build(&known), "1 (jar), software CRC, assertions unknown");
    }

    #[test]
    fn each_note_is_listed_once() {
        let (plan, mut records) = crate::report::tests::sample(2);
        for record in &mut records {
            record.row.departures = vec!["no triggers".into()];
            record.row.load_before = Some(f64::from(record.row.round));
        }
        records[0].row.notes = vec!["loud".into()];
        records[1].row.settled = Some(false);
        records[11].row.disturbed = Some(true);
        records[2].row.error = Some("out of luck".into());
        records[3].row.began = Some("2026-11-29T23:59:58Z".into());
        records[4].row.began = Some("2026-11-30T00:00:01Z".into());
        let sections: BTreeMap<_, _> = of(&plan, "dir:/x", &records.iter().collect::<Vec<_>>()).into_iter().collect();
        assert_eq!(sections["Departures"], ["a: no triggers", "b:fast: no triggers"]);
        assert_eq!(sections["Errors"], ["a: readseq in round 1: out of luck"]);
        assert_eq!(sections["Notes"][0], "a: fillseq in round 1: loud");
        assert!(sections["Notes"][1].contains("not finish in time"));
        assert_eq!(
            sections["Notes"][2],
            "disturbed: in 1 of 12 measurements other processes used up to 2.00 processors"
        );
        assert_eq!(sections["Notes"][3], "load average between 1.0 and 2.0");
        assert!(!sections.contains_key("Driver"));
        let dates = sections["Machine"].last().map(String::as_str);
        assert_eq!(dates, Some("workloads started between 2026-11-29T23:59:58Z and 2026-11-30T00:00:01Z"));
    }
}
