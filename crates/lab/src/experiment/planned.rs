//! Presets that experiments name although they do not exist yet.

/// Planned designs of the papers, and of Terrace: name and description. The row of a planned
/// preset is pending, never a row of zeros.
const PLANNED: &[(&str, &str)] = &[
    ("terrace:pebblesdb", "PebblesDB: levels fragmented by guards"),
    ("terrace:l2sm", "L2SM: hot entries separated"),
    ("terrace:hyperleveldb", "HyperLevelDB: parallel writers, compactions with little overlap"),
];

/// Returns the description of engine `name` if it is a planned one.
pub fn planned(name: &str) -> Option<&'static str> {
    PLANNED.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}
