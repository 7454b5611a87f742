//! Peers that are crates: compiled in behind a feature of their name, so that nobody builds them who does not ask.
#[cfg(not(all(feature = "fjall", feature = "redb")))]
pub use absent::Absent;

/// What is known about the peer whose crates these are, the main one first. Each has one version in this workspace.
#[cfg(any(feature = "fjall", feature = "redb"))]
pub fn build(crates: &[&str]) -> terrace_lab::target::Build {
    let parts = crates.iter().enumerate().map(|(at, name)| match at {
        0 => version(name).to_owned(),
        _ => format!("{name} {}", version(name)),
    });
    terrace_lab::target::Build {
        version: parts.collect::<Vec<_>>().join(" with "),
        source: "crates.io, compiled into this program, checksums by XXH3".into(),
        hardware_crc: None, // there is no CRC
        assertions: Some(cfg!(debug_assertions)),
    }
}

/// The version that was compiled: no crate of these tells its own.
#[cfg(any(feature = "fjall", feature = "redb"))]
fn version(name: &str) -> &'static str {
    let lock = include_str!("../../../../Cargo.lock");
    let entry = format!("\nname = \"{name}\"\nversion = \"");
    let found = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    found.unwrap_or("of unknown version")
}

#[cfg(not(all(feature = "fjall", feature = "redb")))]
mod absent {
    use anyhow::bail;
    use std::path::Path;
    use terrace_lab::target::{Build, Engine, Result, Settings, Target};

    /// A peer that is not compiled in, by its name.
    #[derive(Clone, Copy, Debug)]
    pub struct Absent(pub &'static str);

    impl Engine for Absent {
        fn name(&self) -> String {
            self.0.into()
        }

        fn build(&self) -> std::result::Result<Build, String> {
            Err(format!(
                "this program is built without it; `cargo build --release -p terrace-cli --features {}`",
                self.0
            ))
        }

        fn departures(&self, _: &Settings) -> Vec<String> {
            Vec::new()
        }

        fn open(&self, _: &Path, _: &Settings) -> Result<Box<dyn Target>> {
            bail!("{} is not compiled in", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(not(all(feature = "fjall", feature = "redb")))]
    fn what_is_absent_names_the_command_that_builds_it() {
        use terrace_lab::target::Engine;
        let how = super::Absent("redb").build().unwrap_err();
        assert!(how.contains("cargo build --release -p terrace-cli --features redb"), "{how}");
    }

    #[test]
    #[cfg(feature = "redb")]
    fn the_version_is_the_one_that_was_locked() {
        let told = super::build(&["redb"]).version;
        assert!(told.starts_with(|c: char| c.is_ascii_digit()) && told.split('.').count() == 3, "{told}");
    }
}
