//! Checks that each crate of the workspace depends only on the crates that the layering allows.
use super::Report;
use anyhow::{Context, Result};
use std::{fs, path::Path};

/// Folders below `crates/` with the workspace packages they may depend on. Tests may use more.
const ALLOWED: &[(&str, &[&str])] = &[
    ("format", &[]),
    ("device", &[]),
    ("vfs", &["terrace-format", "terrace-device"]),
    ("storage", &["terrace-format", "terrace-device", "terrace-vfs"]),
    ("engine", &["terrace-format", "terrace-storage"]),
    ("backup", &["terrace", "terrace-storage", "terrace-vfs"]),
    ("sim", &["terrace-format", "terrace-device", "terrace-vfs", "terrace-storage"]),
    ("lab", &["terrace", "terrace-format", "terrace-device", "terrace-storage", "terrace-sim"]),
    ("peers", &["terrace-lab"]),
    (
        "cli",
        &[
            "terrace",
            "terrace-backup",
            "terrace-format",
            "terrace-device",
            "terrace-storage",
            "terrace-sim",
            "terrace-lab",
            "terrace-peers",
        ],
    ),
    ("capi", &["terrace", "terrace-backup", "terrace-format", "terrace-storage"]),
];

/// Compares every manifest with the table.
pub fn check(root: &Path, report: &mut Report) -> Result<()> {
    for entry in fs::read_dir(root.join("crates")).context("crates")? {
        let folder = entry?.file_name().to_string_lossy().into_owned();
        let name = format!("crates/{folder}/Cargo.toml");
        let manifest = fs::read_to_string(root.join(&name)).with_context(|| name.clone())?;
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == folder) else {
            report.problem(name, "a crate that the table in xtask/src/tidy/crates.rs does not know");
            continue;
        };
        for dependency in dependencies(&manifest).filter(|name| name.starts_with("terrace")) {
            if !allowed.contains(&dependency) {
                report.problem(&name, format!("must not depend on {dependency}"));
            }
        }
    }
    Ok(())
}

/// Returns the names in the section `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_section_of_dependencies_counts() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nterrace.workspace = true\n# why\nsnap = \"1\"\n\n\
                        [dev-dependencies]\nterrace-sim.workspace = true\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["terrace", "snap"]);
    }
}
