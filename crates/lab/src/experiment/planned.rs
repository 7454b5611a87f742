//! Planned presets: presets that experiments name although Terrace does not have them yet.

/// The planned presets, each with its name and description. They are designs of the papers and of
/// Terrace. In a report, the row of such a preset is marked as pending and has no figures.
const PLANNED: &[(&str, &str)] = &[
    ("terrace:pebblesdb", "PebblesDB: levels fragmented by guards"),
    ("terrace:l2sm", "L2SM: hot entries separated"),
    ("terrace:hyperleveldb", "HyperLevelDB: parallel writers, compactions with little overlap"),
];

/// Returns the description of engine `name` if it is a planned preset.
pub fn planned(name: &str) -> Option<&'static str> {
    PLANNED.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}
