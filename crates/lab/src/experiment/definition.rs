//! The fields of an experiment (the description of one measured table or figure): engines,
//! workloads, sizes, plots and expectations.
use super::{
    expression::{Comparison, Expression},
    metric, papers,
    scale::Scale,
    tables::{Device, Load, Terms},
};
use crate::workload;
use serde::{Deserialize, Deserializer, de::Error};
use toml::Spanned;

/// Name of the axis that every experiment has. The labels (values) of this axis are the names of
/// the workloads, one per row.
pub const WORKLOAD: &str = "workload";

/// A decoded experiment: the measurements of one table or figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of the experiment in commands. It is the name of the file.
    #[serde(skip)]
    pub name: String,
    /// Text of the file. A run stores it with the results.
    #[serde(skip)]
    pub text: String,
    /// Title of the figure.
    pub title: String,
    /// The paper and its figure, or `ours` for an experiment that is not from a paper.
    pub source: String,
    /// The question that the experiment answers.
    pub question: String,
    /// Text that says how figures differ at a scale below 1, and which statements remain valid.
    pub scaling: String,
    /// Names of the engines. Reports compare the other engines with the first one.
    pub engines: Vec<Spanned<String>>,
    /// Names of the workloads. They run in this order on one store.
    pub workloads: Vec<WorkloadName>,
    /// Number of rounds of each engine at each point. A point is one combination of the values that
    /// the experiment varies.
    #[serde(default = "one")]
    pub rounds: u32,
    /// The data that is written and read.
    pub load: Load,
    /// Settings that all engines have in common.
    #[serde(default)]
    pub terms: Terms,
    /// Device that contains the stores.
    pub device: Device,
    /// The reduction of the experiment to a smaller size.
    pub scale: Scale,
    /// Fields that take several values (sweeps). Every combination of these values is a point.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
    /// The plots of the results.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// Comparisons with the paper's figures.
    #[serde(default)]
    pub compare: Vec<Compare>,
    /// Expectations about the figures.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

/// A sweep: a field of the experiment, and the values that it takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The field with its table, such as `load.value_size`. The axis of the sweep has the name of
    /// the field.
    pub set: Spanned<String>,
    /// The values, in the type of the field.
    pub to: Vec<toml::Value>,
}

/// A plot of one metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Metric on the vertical axis.
    pub y: metric::MetricName,
    /// Horizontal axis of the plot. If it is `None`, the plot has one bar per engine.
    pub x: Option<Spanned<String>>,
    /// Whether both axes are logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// A comparison of one figure of a paper with a measured one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Description of the compared figure.
    pub what: String,
    /// The expression whose value is measured.
    pub here: Spanned<Expression>,
    /// Path of the paper's figure in `papers.toml`.
    pub paper: papers::PaperFigure,
    /// Known reason for a difference, if there is one.
    pub why: Option<String>,
}

/// An expectation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The inequality that is expected.
    pub that: Spanned<Comparison>,
    /// Reason why the inequality is expected: a source, or an argument.
    pub because: String,
    /// Known reason why the inequality does not hold for measured figures, if it does not.
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
    /// Returns the name of the sweep's axis in expressions. It is the name of the field without its
    /// table.
    pub fn axis(&self) -> &str {
        let set = self.set.get_ref();
        set.rsplit_once('.').map_or(set, |(_, field)| field)
    }

    /// Returns the values of the sweep in the form that expressions and reports use.
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
        other => format!("{other:?}"), // no field accepts such a value, so decoding fails
    }
}

/// An error in an experiment's file. The text names the line.
pub type ExperimentError = String;

impl Experiment {
    /// Returns the names of engines, in order.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        self.engines.iter().map(|engine| engine.get_ref().as_str())
    }

    /// Returns the names of the rows (one per stage of a workload), in order. A repeated name has a
    /// suffix such as ` #2`.
    pub fn rows(&self) -> Vec<String> {
        let names: Vec<String> = self.workloads.iter().map(|WorkloadName(name)| name.clone()).collect();
        let steps = workload::rows(&names).expect("each was found when it was decoded");
        (0..steps.len()).map(|step| crate::report::title(&steps, step)).collect()
    }

    /// Returns the labels (values) of an axis. The axis may be `workload`.
    pub fn labels(&self, axis: &str) -> Option<Vec<String>> {
        if axis == WORKLOAD {
            return Some(self.rows());
        }
        self.sweep.iter().find(|sweep| sweep.axis() == axis).map(|sweep| sweep.labels().collect())
    }
}
