//! Experiments: one TOML file for each table or figure, with its question, its size, and its
//! expectations.
//!
//! | module | contents |
//! |---|---|
//! | `known` | the built-in experiments |
//! | `tables` `size` | load, common settings, device |
//! | `points` | combinations of the values of a sweep |
//! | `scale` | reduction to a smaller size |
//! | `metric` `expression` | statements about figures |
//! | `papers` | figures of the papers |
//!
//! Decoding is strict: an unknown field, workload, unit, metric, engine or axis is refused with
//! its line.
pub mod expression;
pub mod known;
pub mod metric;
pub mod papers;
pub mod points;
pub mod scale;
pub mod size;
pub mod tables;

use crate::workload;
use expression::{Comparison, Expression, Figure};
use points::{Point, located};
use scale::Scale;
use serde::{Deserialize, Deserializer, de::Error};
use tables::{Device, Load, Terms};
use toml::Spanned;

/// The axis that every experiment has: the names of its rows.
pub const WORKLOAD: &str = "workload";

/// A decoded experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name in commands: the name of its file.
    #[serde(skip)]
    pub name: String,
    /// Text of the file, which a run stores with its results.
    #[serde(skip)]
    pub text: String,
    /// Title of the figure.
    pub title: String,
    /// The paper and its figure, or `ours`.
    pub source: String,
    /// The question to answer.
    pub question: String,
    /// Differences at a scale below 1, and the statements that remain valid.
    pub scaling: String,
    /// Engines by name; the others are compared with the first.
    pub engines: Vec<Spanned<String>>,
    /// Workloads by name, in order, on one store.
    pub workloads: Vec<WorkloadName>,
    /// Number of rounds of each engine at each point.
    #[serde(default = "one")]
    pub rounds: u32,
    /// Written and read data.
    pub load: Load,
    /// Common settings of all engines.
    #[serde(default)]
    pub terms: Terms,
    /// Device of the stores.
    pub device: Device,
    /// Reduction of the experiment.
    pub scale: Scale,
    /// Fields that take several values; every combination is a point.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
    /// Plots.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// Comparisons with the paper's figures.
    #[serde(default)]
    pub compare: Vec<Compare>,
    /// Expectations.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

/// A field and its values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// A table and its field, such as `load.value_size`. The field names the axis.
    pub set: Spanned<String>,
    /// Values, in the type of the field.
    pub to: Vec<toml::Value>,
}

/// A plot of one metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Metric on the vertical axis.
    pub y: metric::MetricName,
    /// Horizontal axis; `None` plots the engines as bars.
    pub x: Option<Spanned<String>>,
    /// Whether both axes are logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// A comparison of one figure of a paper with a measured one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Description.
    pub what: String,
    /// The measured expression.
    pub here: Spanned<Expression>,
    /// Path of the paper's figure in `papers.toml`.
    pub paper: papers::PaperFigure,
    /// Known reason for a difference.
    pub why: Option<String>,
}

/// An expectation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The inequality.
    pub that: Spanned<Comparison>,
    /// Source or reason of the expectation.
    pub because: String,
    /// Known reason if the expectation does not hold here.
    pub otherwise: Option<String>,
}

/// The name of an existing workload.
#[derive(Clone, Debug)]
pub struct WorkloadName(pub String);

impl<'de> Deserialize<'de> for WorkloadName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WorkloadName, D::Error> {
        let name = String::deserialize(deserializer)?;
        workload::stages(&name).map_err(D::Error::custom)?;
        Ok(WorkloadName(name))
    }
}

fn one() -> u32 {
    1
}

impl Sweep {
    /// Returns the name of the axis in expressions: the field without its table.
    pub fn axis(&self) -> &str {
        let set = self.set.get_ref();
        set.rsplit_once('.').map_or(set, |(_, field)| field)
    }

    /// Returns the values as expressions and reports spell them.
    pub fn labels(&self) -> impl Iterator<Item = String> {
        self.to.iter().map(label)
    }
}

fn label(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(is) => is.to_string(),
        other => format!("{other:?}"), // no field accepts it, so it is refused
    }
}

/// An error in a file; the text names the line.
pub type ExperimentError = String;

impl Experiment {
    /// Decodes `text`; error messages call it `path`. `engine_is_known` accepts the names of
    /// engines, except for presets that are still planned.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn decode(
        name: &str,
        path: &str,
        text: &str,
        engine_is_known: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<Experiment, ExperimentError> {
        let parsed: Result<Experiment, toml::de::Error> = toml::from_str(text);
        let mut experiment = parsed.map_err(|error| format!("{path}: {}", error.to_string().trim_end()))?;
        experiment.name = name.into();
        experiment.text = text.into();
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        experiment.check(engine_is_known).map_err(|(at, why)| match at {
            Some(at) => format!("{path}:{}: {why}", line(at)),
            None => format!("{path}: {why}"),
        })?;
        Ok(experiment)
    }

    /// Returns the names of engines, in order.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        self.engines.iter().map(|engine| engine.get_ref().as_str())
    }

    /// Returns the names of its rows, in order; a repeated name has a suffix such as ` #2`.
    pub fn rows(&self) -> Vec<String> {
        let names: Vec<String> = self.workloads.iter().map(|WorkloadName(name)| name.clone()).collect();
        let steps = workload::rows(&names).expect("each was found when it was decoded");
        (0..steps.len()).map(|step| crate::report::title(&steps, step)).collect()
    }

    /// Returns the labels of an axis, `workload` included.
    pub fn labels(&self, axis: &str) -> Option<Vec<String>> {
        if axis == WORKLOAD {
            return Some(self.rows());
        }
        self.sweep.iter().find(|sweep| sweep.axis() == axis).map(|sweep| sweep.labels().collect())
    }

    /// Returns every combination of the sweeps' values at this scale.
    pub fn points(&self, scale: f64) -> Result<Vec<Point>, ExperimentError> {
        points::points(self, scale).map_err(|(_, why)| why)
    }

    fn check(&self, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Result<(), (Option<usize>, String)> {
        let at = |span: std::ops::Range<usize>| Some(span.start);
        if !(self.scale.default > 0.0 && self.scale.default <= 1.0) {
            let why = format!("scale.default: {} is not in the range above 0 up to 1", self.scale.default);
            return Err((located(&self.text, "scale.default"), why));
        }
        let counts =
            [("engines", self.engines.len()), ("workloads", self.workloads.len()), ("rounds", self.rounds as usize)];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err((located(&self.text, field), format!("{field}: at least one is required")));
        }
        for (index, engine) in self.engines.iter().enumerate() {
            let name = engine.get_ref();
            if known::planned(name).is_none() {
                engine_is_known(name).map_err(|why| (at(engine.span()), format!("engines: {why}")))?;
            }
            if self.engines().take(index).any(|earlier| earlier == name) {
                return Err((at(engine.span()), format!("engines: {name} is listed twice")));
            }
        }
        for sweep in &self.sweep {
            if sweep.to.is_empty() {
                return Err((at(sweep.set.span()), "sweep: no values".into()));
            }
        }
        for scale in [1.0, self.scale.default] {
            points::points(self, scale)?;
        }
        for plot in &self.plot {
            if let Some(x) = &plot.x
                && (x.get_ref() == WORKLOAD || self.labels(x.get_ref()).is_none())
            {
                return Err((at(x.span()), format!("plot.x: {} is not a sweep", x.get_ref())));
            }
        }
        for expect in &self.expect {
            let wrong = |why| (at(expect.that.span()), format!("expect.that: {why}"));
            expect
                .that
                .get_ref()
                .figures()
                .into_iter()
                .try_for_each(|figure| self.check_figure(figure))
                .map_err(wrong)?;
        }
        for compare in &self.compare {
            let wrong = |why| (at(compare.here.span()), format!("compare.here: {why}"));
            compare
                .here
                .get_ref()
                .figures()
                .into_iter()
                .try_for_each(|figure| self.check_figure(figure))
                .map_err(wrong)?;
        }
        Ok(())
    }

    fn check_figure(&self, figure: &Figure) -> Result<(), String> {
        if !self.engines().any(|engine| engine == figure.engine) {
            return Err(format!("{} is not one of the engines", figure.engine));
        }
        for (axis, label) in &figure.at {
            let labels = self.labels(axis).ok_or_else(|| format!("{axis} is not an axis of this experiment"))?;
            if !labels.contains(label) {
                return Err(format!("{axis} has no value {label}; its values are {}", labels.join(", ")));
            }
        }
        match &figure.along {
            Some(axis) if self.labels(axis).is_none_or(|labels| labels.len() < 3) || axis == WORKLOAD => {
                Err(format!("an exponent along {axis} needs a sweep with at least three values"))
            }
            Some(axis) => self.labels(axis).unwrap_or_default().iter().try_for_each(|label| {
                points::number(label).map(drop).ok_or_else(|| format!("{axis}: {label} is not a number above 0"))
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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
            ("\"1GiB\"", "\"1GB\"", &["line 10", "bytes", "1GB", "GiB"]),
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

    /// A claim about the time of writes is also made for the settled time, which includes the
    /// deferred work. In `readwhilewriting` the time is that of the reads.
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
