//! The fields of an experiment.
use super::{
    expression::{Comparison, Expression},
    metric, papers,
    scale::Scale,
    tables::{Device, Load, Terms},
};
use crate::workload;
use serde::{Deserialize, Deserializer, de::Error};
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

pub(super) fn label(value: &toml::Value) -> String {
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
}
