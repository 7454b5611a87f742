//! All engines that a benchmark can name: Terrace and its peers (other engines).
use anyhow::{Result, bail};
use terrace_lab::{engines, target::Engine};
use terrace_peers::lab as peers;

/// Returns the engine with the name `name`. If it does not exist, the error lists all engines.
pub fn find(name: &str) -> Result<Box<dyn Engine>> {
    if let Some(peer) = peers::engine(name) {
        return Ok(peer);
    }
    let preset = name.split('+').next().unwrap_or(name); // options follow the preset's name
    if engines::list().iter().any(|(known, _)| known == preset) {
        return engines::engine(name);
    }
    let names: Vec<String> = list().into_iter().map(|(name, _)| name).collect();
    bail!("no engine is named '{name}'; there are {}", names.join(", "))
}

/// Returns the names and descriptions of all engines. For a peer that is not installed, the
/// description says how to install it.
pub fn list() -> Vec<(String, String)> {
    let peers = peers::NAMES.iter().filter_map(|name| Some((name, peers::engine(name)?)));
    let peers = peers.map(|(name, peer)| {
        let about = match peer.build() {
            Ok(build) => format!("{}, {}", build.version, build.source),
            Err(how) => format!("not here: {how}"),
        };
        ((*name).to_owned(), about)
    });
    engines::list().into_iter().chain(peers).collect()
}
