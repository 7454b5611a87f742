//! Engines that need no foreign library: Terrace's presets, an engine that does nothing, and an
//! engine with known costs.
pub mod fake;
pub mod null;
pub mod terrace;

use crate::target::Engine;
use anyhow::{Result, bail};

/// Returns the name and description of every engine of this module.
pub fn list() -> Vec<(String, String)> {
    let default = ("terrace".to_string(), "Terrace with its default preset".to_string());
    let presets = ::terrace::PRESETS
        .iter()
        .chain(::terrace::PAPER_PRESETS)
        .map(|(name, help)| (format!("terrace:{name}"), help.to_string()));
    let nulls = [
        ("null", "does nothing; measures the cost of the driver itself"),
        ("null:device", "the same on a device without a file system, for workloads that need no engine"),
    ];
    let nulls = nulls.map(|(name, help)| (name.to_string(), help.to_string()));
    std::iter::once(default).chain(presets).chain(nulls).collect()
}

/// Returns the engine called `name`. The error lists the engines of this module.
pub fn engine(name: &str) -> Result<Box<dyn Engine>> {
    let (base, preset) = name.split_once(':').map_or((name, None), |(base, preset)| (base, Some(preset)));
    match (base, preset) {
        ("terrace", preset) => Ok(Box::new(terrace::Terrace::new(preset)?)),
        ("null", None | Some("device")) => Ok(Box::new(null::Null { on_device: preset.is_some() })),
        _ => {
            let names: Vec<_> = list().into_iter().map(|(name, _)| name).collect();
            bail!("unknown engine {name:?}; the engines are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_accepted_and_unknown_ones_are_refused() {
        for (name, _) in list() {
            let found = engine(&name).unwrap().name();
            assert!(found == name || name == "terrace" && found.starts_with("terrace:"), "{name} is {found}");
        }
        let text = |name| engine(name).err().unwrap().to_string();
        assert!(text("terrace:fast").contains("fast") && text("terrace:fast").contains("there are default, "));
        assert!(
            text("terrace:leveldb+speed=high").contains("speed")
                && text("terrace:leveldb+allow_mmap_reads").contains("OPTION")
        );
        assert!(text("berkeley").contains("berkeley") && text("berkeley").contains("terrace"));
    }
}
