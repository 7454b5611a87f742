//! The built-in experiments: their TOML files, which are compiled into the program.
pub use super::planned::planned;

use super::definition::Experiment;

/// Expands the name of an experiment to its name and the text of its file.
macro_rules! known {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))
    };
}

/// The name and the text of each built-in experiment.
pub const LIST: &[(&str, &str)] = &[
    known!("noblsm-fig-2a"),
    known!("noblsm-fig-2b"),
    known!("noblsm-fig-4"),
    known!("noblsm-fig-5a"),
    known!("noblsm-fig-5b"),
    known!("noblsm-table-1"),
    known!("leveldb-raw-fig-5-7"),
    known!("leveldb-raw-fig-8"),
    known!("leveldb-raw-fig-10"),
    known!("delsm-fig-5"),
    known!("delsm-fig-5-ssd"),
    known!("delsm-fig-6"),
    known!("delsm-fig-6-ssd"),
    known!("delsm-table-2-4k"),
    known!("delsm-table-2-512"),
    known!("cascaded-fig-3"),
    known!("cascaded-fig-4"),
    known!("cascaded-fig-5"),
    known!("cascaded-fig-6"),
    known!("cascaded-fig-7"),
    known!("cascaded-fig-8"),
    known!("cascaded-fig-9"),
    known!("cascaded-fig-10"),
    known!("cascaded-fig-11"),
    known!("cascaded-fig-12"),
    known!("cascaded-fig-13"),
    known!("bars-1k"),
    known!("bars-100"),
    known!("bars-mixed"),
    known!("bars-mixed-100"),
    known!("bars-sync"),
    known!("bars-sync-8"),
    known!("bars-raw"),
    known!("bars-raw-batches"),
    known!("bars-raw-ycsb"),
    known!("bars-value-log"),
    known!("bars-value-log-100"),
    known!("bars-directory-tables"),
    known!("bars-reads"),
    known!("bars-threads"),
    known!("bars-open"),
    known!("bars-growth"),
    known!("ours-ageing"),
    known!("ours-chainstate"),
    known!("ours-default"),
    known!("ours-default-deletes"),
    known!("ours-default-loads"),
    known!("ours-default-ycsb"),
    known!("ours-flush-latency"),
    known!("ours-growth"),
    known!("ours-mixgraph"),
    known!("ours-leveldb-ssd"),
    known!("ours-raw-ssd"),
    known!("ours-syncs"),
    known!("ours-tiers"),
    known!("ours-tour"),
    known!("ours-waiting"),
    known!("ours-waiting-flush"),
    known!("ours-waiting-ycsb"),
    known!("ours-value-log-deletes-4k"),
    known!("ours-value-log-deletes-512"),
    known!("ours-value-log-fill"),
    known!("ours-value-log-mixed"),
    known!("ours-value-log-updates"),
];

/// Decodes the experiment called `name`. Returns `None` if there is no built-in experiment of this
/// name.
pub fn find(name: &str, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Option<Result<Experiment, String>> {
    let (name, text) = LIST.iter().find(|(known, _)| *known == name)?;
    Some(Experiment::decode(name, &format!("experiments/{name}.toml"), text, engine_is_known))
}
