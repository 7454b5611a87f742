//! The marker: what a store remembers of how it is kept, and which options it therefore refuses.
//!
//! A directory without marker is a LevelDB store and stays one. What LevelDB could not read is refused there by name.
use crate::{Error, Options, Result};
use terrace_format::{
    Corrupt,
    compress::Codec,
    marker::{KNOWN_FEATURES, Marker, UNKNOWN},
    range_deletes,
};
use terrace_storage::placement::Placement;

const LZ4: &str = "lz4";

/// Features that `options` would use, and how they ask for them.
fn wanted(options: &Options) -> Vec<(&'static str, &'static str)> {
    let lz4 = (options.compression == Codec::Lz4).then_some((LZ4, "compression=lz4"));
    lz4.into_iter().chain(options.range_deletes.then_some((range_deletes::FEATURE, "range_deletes=on"))).collect()
}

/// A new store: writes a marker if one is needed, before the first use of what it announces.
pub fn create(placement: &dyn Placement, options: &Options) -> Result<Vec<String>> {
    let mut features: Vec<String> = wanted(options).into_iter().map(|(feature, _)| feature.to_string()).collect();
    if !features.is_empty() {
        if !options.range_deletes {
            features.push(range_deletes::FEATURE.to_string()); // nobody is left who could not read them
        }
        let marker = Marker {
            version: 1,
            storage: "directory".into(),
            table_format: "block".into(),
            values: "table".into(),
            features: features.clone(),
        };
        placement.publish_marker(&marker.encode())?;
    }
    Ok(features)
}

/// An existing store: its marker must be known, its manifest must ask for no more than the marker says, and the options
/// must not ask for more either.
pub fn check(placement: &dyn Placement, options: &Options, in_manifest: &[String]) -> Result<Vec<String>> {
    let place = placement.name();
    let refused = |found: Corrupt| match found.what {
        UNKNOWN => Error::Unsupported(format!("{place}/TERRACE at byte {}: {}", found.offset, found.detail)),
        what => Error::corrupt(what, format!("{place}/TERRACE"), found.offset, found.detail),
    };
    let marker = placement.load_marker()?.map(|text| Marker::decode(&text).map_err(refused)).transpose()?;
    let features = marker.map_or_else(Vec::new, |marker| marker.features);
    if let Some(unknown) = in_manifest.iter().find(|feature| !KNOWN_FEATURES.contains(&feature.as_str())) {
        return Err(Error::Unsupported(format!("{place} uses {unknown:?}, which this version does not know")));
    }
    if let Some(lost) = in_manifest.iter().find(|feature| !features.contains(feature)) {
        return Err(Error::Unsupported(format!(
            "{place} uses {lost:?} by its manifest, but its marker file TERRACE does not say so"
        )));
    }
    let unannounced = |(feature, _): &(&str, _)| features.iter().all(|known| known != feature);
    if let Some((_, refused)) = wanted(options).into_iter().find(unannounced) {
        return Err(Error::Unsupported(format!(
            "{refused} is refused: {place} was not created with it, and LevelDB could no longer read the store"
        )));
    }
    Ok(features)
}
