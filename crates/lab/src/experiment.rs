//! Experiments. Each is a TOML file that describes the measurements of one table or figure: the
//! question, the sizes, and the expectations.
//!
//! | module | contents |
//! |---|---|
//! | `definition` `decode` | the fields of an experiment, and its checks |
//! | `known` `planned` | the built-in experiments, and presets that do not exist yet |
//! | `tables` `size` | load, common settings, device |
//! | `points` | combinations of the values that the experiment varies |
//! | `scale` | reduction to a smaller size |
//! | `metric` `expression` | statements about figures |
//! | `papers` | the figures of the papers |
//!
//! Decoding is strict. An unknown field, workload, unit, metric, engine or axis is an error that
//! names its line.
mod decode;
mod definition;
pub mod expression;
pub mod known;
pub mod metric;
pub mod papers;
mod planned;
pub mod points;
pub mod scale;
pub mod size;
pub mod tables;

pub use definition::{Compare, Expect, Experiment, ExperimentError, Plot, Sweep, WORKLOAD, WorkloadName};

#[cfg(test)]
pub(crate) mod tests {
    use super::{
        expression::{Comparison, Figure},
        *,
    };
    use crate::workload;

    pub(crate) const GOOD: &str = r#"
title = "A title"
source = "ours"
question = "Why?"
scaling = "Less of everything."
engines = ["terrace:leveldb", "terrace:wisckey"]
workloads = ["fillrandom", "readrandom"]

[load]
bytes = "1GiB"

[device]
kind = "vssd"
profile = "ssd-s"
size = 4_294_967_296

[scale]
default = 0.0625
with = ["load", "device", "level_base"]

[[sweep]]
set = "load.value_size"
to = ["100B", "1KiB"]

[[sweep]]
set = "device.state"
to = ["initial", "steady"]

[[plot]]
y = "wa1"
x = "value_size"

[[expect]]
that = "wa1(terrace:wisckey, workload=fillrandom, value_size=1KiB) < wa1(terrace:leveldb, workload=fillrandom)"
because = "values are not compacted"
"#;

    pub(crate) fn decode(text: &str) -> Result<Experiment, ExperimentError> {
        let engines = |name: &str| match name {
            "terrace:leveldb" | "terrace:wisckey" => Ok(()),
            _ => Err(format!("no engine is named {name:?}")),
        };
        Experiment::decode("good", "good.toml", text, &engines)
    }

    #[test]
    fn a_whole_experiment_is_read() {
        let good = decode(GOOD).unwrap();
        assert_eq!(good.rows(), ["fillrandom", "readrandom"]);
        assert_eq!(good.labels("value_size").unwrap(), ["100B", "1KiB"]);
        let points = good.points(0.0625).unwrap();
        assert_eq!(points.len(), 4);
        assert_eq!(points[1].at, [("value_size".into(), "100B".into()), ("state".into(), "steady".into())]);
        assert_eq!((points[0].spec.num, points[2].spec.num), ((1 << 26) / 116, (1 << 26) / 1040));
        assert_eq!(points[2].spec.value_size, 1024);
        assert_eq!(points[0].spec.settings.level_base, (10 << 20) / 16);
        assert_eq!(points[0].spec.settings.write_buffer_size, 4 << 20, "it is not among what shrinks");
        let points::PointDevice::Vssd { profile, is_steady, .. } = &points[1].place else { panic!("a virtual SSD") };
        assert_eq!((profile.capacity_bytes, is_steady), (1 << 28, &true));
        assert!(points.iter().all(|point| point.stopped.is_empty()));
        assert!(good.points(1e-4).unwrap()[0].stopped.iter().any(|line| line.contains("level_base")));
    }

    #[test]
    fn errors_name_their_line_and_field() {
        for (old, new, words) in [
            ("title = \"A title\"", "titel = \"A title\"", &["line 2", "titel"][..]),
            ("fillrandom\",", "fillrandum\",", &["line 7", "fillrandum", "the workloads are"]),
            ("terrace:wisckey\"]", "terrace:fast\"]", &["good.toml:6", "engines", "terrace:fast"]),
            ("\"1GiB\"", "\"1XB\"", &["line 10", "bytes", "1XB", "GiB"]),
            ("bytes = \"1GiB\"", "bytes = \"1GiB\"\nnum = 1", &["good.toml:11", "load.num", "bytes"]),
            ("kind = \"vssd\"", "kind = \"floppy\"", &["line 13", "kind", "floppy"]),
            ("\"ssd-s\"", "\"ssd-x\"", &["good.toml:14", "device.profile", "ssd-x", "ssd-s"]),
            (
                "kind = \"vssd\"",
                "kind = \"vssd\"\nfile_system = \"xfs\"",
                &["good.toml:14", "device.file_system", "loop"],
            ),
            (
                "kind = \"vssd\"",
                "kind = \"temporary\"\nfile_system = \"ext4-nojournal\"",
                &["good.toml:14", "device.file_system", "temporary"],
            ),
            ("size = 4_294_967_296", "", &["good.toml:12", "device.size"]),
            ("size = 4_294_967_296", "size = \"1KiB\"", &["good.toml:15", "device.size", "superblocks"]),
            ("load.value_size\"\nto = [\"100B\"", "device.size\"\nto = [\"1KiB\"", &["good.toml:22", "device.size"]),
            ("bytes = \"1GiB\"", "num = 900_000\nkey_size = 2", &["good.toml:9", "load", "key size"]),
            ("\"fillrandom\", \"readrandom\"", "", &["good.toml:7", "workloads"]),
            ("default = 0.0625", "default = 2.0", &["good.toml:18", "scale.default"]),
            ("\"level_base\"", "\"levels\"", &["line 19", "with", "levels"]),
            ("load.value_size", "load.size", &["good.toml:22", "size"]),
            ("\"100B\", \"1KiB\"", "\"100X\"", &["good.toml:22", "100X", "unit"]),
            ("x = \"value_size\"", "x = \"sizes\"", &["good.toml:31", "plot.x", "sizes"]),
            ("y = \"wa1\"", "y = \"wa7\"", &["line 30", "y = ", "wa7"]),
            ("< wa1(terrace:leveldb", "< wa1(leveldb", &["good.toml:34", "expect.that", "leveldb"]),
            ("value_size=1KiB", "value_size=2KiB", &["good.toml:34", "2KiB", "100B, 1KiB"]),
            (" < wa1", " = wa1", &["line 34", "that = ", "< <= > >="]),
        ] {
            assert!(GOOD.contains(old), "{old}");
            let error = decode(&GOOD.replacen(old, new, 1)).expect_err(new);
            words.iter().for_each(|word| assert!(error.contains(word), "{new}: {word} is not in {error}"));
        }
    }

    #[test]
    fn a_virtual_drive_may_be_without_a_journal() {
        let good = GOOD.replacen("kind = \"vssd\"", "kind = \"vssd\"\nfile_system = \"ext4-nojournal\"", 1);
        for point in decode(&good).unwrap().points(1.0).unwrap() {
            assert!(point.place.describe().ends_with(", without a journal"), "{}", point.place.describe());
        }
    }

    /// Tests the built-in experiments: if one states an expectation about the time of writes, it
    /// must also state one about the settled time. The settled time includes the work that the
    /// engine deferred. The workload `readwhilewriting` is exempt, because its time is that of the
    /// reads.
    #[test]
    fn claims_on_writes_also_cover_the_settled_time() {
        for (name, _) in known::LIST {
            let experiment = known::find(name, &|_| Ok(())).unwrap().unwrap();
            let claims: Vec<&Comparison> = experiment.expect.iter().map(|expect| expect.that.get_ref()).collect();
            let stages: Vec<_> =
                experiment.workloads.iter().flat_map(|workload| workload::stages(&workload.0).unwrap()).collect();
            let writes = |row: &str| {
                row != "readwhilewriting"
                    && stages.iter().any(|stage| !stage.only_reads() && row.split(" #").next() == Some(&stage.name()))
            };
            let of_writes = |claim: &Comparison| {
                let of = claim.figures().into_iter().filter(|figure| figure.metric.name == "micros");
                let rows = |figure: &Figure| {
                    let named = figure.at.iter().find(|(axis, _)| axis == "workload").map(|(_, row)| vec![row.clone()]);
                    named.unwrap_or_else(|| experiment.rows())
                };
                of.flat_map(rows).any(|row| writes(&row))
            };
            for claim in claims.iter().filter(|claim| of_writes(claim)) {
                let settled = claim.text.replace("micros", "micros_settled");
                assert!(claims.iter().any(|other| other.text == settled), "{name}: {}", claim.text);
            }
        }
    }
}
