//! Presets that experiments name although they do not exist yet.

/// Presets that are planned: designs of the papers and of Terrace, each with its name and
/// description. In a report, the row of such a preset is pending. It never has zeros.
const PLANNED: &[(&str, &str)] = &[
    ("terrace:pebblesdb", "PebblesDB: levels fragmented by guards"),
    ("terrace:l2sm", "L2SM: hot entries separated"),
    ("terrace:hyperleveldb", "HyperLevelDB: parallel writers, compactions with little overlap"),
];

/// Returns the description of engine `name` if it is a planned preset.
pub fn planned(name: &str) -> Option<&'static str> {
    PLANNED.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}
