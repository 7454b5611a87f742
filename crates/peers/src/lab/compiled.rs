//! Peers (other engines) that are Rust crates. A cargo feature with the name of the peer compiles
//! it in, so default builds do not contain it.
#[cfg(not(all(feature = "fjall", feature = "redb")))]
pub use absent::Absent;

/// Returns the build information of a peer. `crates` are the crates that the peer consists of, the
/// main crate first. The workspace has exactly one version of each crate.
#[cfg(any(feature = "fjall", feature = "redb"))]
pub fn build(crates: &[&str]) -> terrace_lab::target::EngineBuild {
    let parts = crates.iter().enumerate().map(|(at, name)| match at {
        0 => version(name).to_owned(),
        _ => format!("{name} {}", version(name)),
    });
    terrace_lab::target::EngineBuild {
        version: parts.collect::<Vec<_>>().join(" with "),
        source: "crates.io, compiled into this program, checksums by XXH3".into(),
        hardware_crc: None, // XXH3, not CRC
        assertions: Some(cfg!(debug_assertions)),
    }
}

/// Returns the version of a crate, which the function finds in the lock file. The crates
/// themselves do not report their versions at run time.
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
    use terrace_lab::target::{Engine, EngineBuild, Result, Settings, Target};

    /// A peer that is not compiled in. It has only a name, and its build information is an error.
    #[derive(Clone, Copy, Debug)]
    pub struct Absent(pub &'static str);

    impl Engine for Absent {
        fn name(&self) -> String {
            self.0.into()
        }

        fn build(&self) -> std::result::Result<EngineBuild, String> {
            Err(format!("not compiled in; build with `cargo build --release -p terrace-cli --features {}`", self.0))
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
    fn an_absent_peer_names_the_command_that_builds_it() {
        use terrace_lab::target::Engine;
        let how = super::Absent("redb").build().unwrap_err();
        assert!(how.contains("cargo build --release -p terrace-cli --features redb"), "{how}");
    }

    #[test]
    #[cfg(feature = "redb")]
    fn the_version_comes_from_the_lock_file() {
        let version = super::build(&["redb"]).version;
        assert!(version.starts_with(|c: char| c.is_ascii_digit()) && version.split('.').count() == 3, "{version}");
    }
}
