//! The marker: what a store remembers of how it is kept, and which options it therefore refuses.
//!
//! A directory without marker, or with one that only says how it becomes durable, is a LevelDB store and stays one. What LevelDB
//! could not read is refused there by name.
use crate::{Error, Options, Result};
use terrace_format::{
    Layout, TableForm, Values,
    compress::Codec,
    format_file::{FormatFile, is_known},
    range_tombstones,
    value_log::WAL_SIDECAR,
};
use terrace_storage::{DurabilityMode, layout::read_marker, placement::Storage};

const LZ4: &str = "lz4";

/// Features that `options` would use beside those of a shape, and how they ask for them.
fn wanted(options: &Options) -> Vec<(&'static str, &'static str)> {
    let lz4 = (options.compression == Codec::Lz4).then_some((LZ4, "compression=lz4"));
    lz4.into_iter()
        .chain(options.range_tombstones.then_some((range_tombstones::FEATURE, "range_tombstones=on")))
        .collect()
}

/// A new store: writes a marker if there is something to remember, before the first use of what it announces.
pub fn create(storage: &dyn Storage, options: &Options) -> Result<Vec<String>> {
    let layout = storage.layout();
    agree(storage, options, layout)?;
    let mut features: Vec<_> = wanted(options).into_iter().map(|(feature, _)| feature).collect();
    features.extend((layout.values == Values::Log && options.wal_sidecar).then_some(WAL_SIDECAR));
    let is_leveldbs = features.is_empty() && layout == Layout::default();
    let in_batches = options.durability == DurabilityMode::Inherit;
    // One that a creation, or a removal, which was cut short has left says what that store was made of, not what this one is.
    let left = match storage.load_marker() {
        Ok(text) => text.map(|text| read_marker(&storage.name(), &text)).transpose(),
        Err(unread) => Err(unread),
    };
    match left {
        Err(unknown @ terrace_storage::Error::Unsupported(_)) => return Err(unknown.into()),
        Ok(None) if is_leveldbs && !in_batches => return Ok(Vec::new()),
        _ => {} // it is replaced, readable or not
    }
    if !is_leveldbs && !options.range_tombstones {
        features.push(range_tombstones::FEATURE); // nobody is left who could not read them
    }
    let marker = FormatFile { in_batches, ..FormatFile::new(layout, features) };
    storage.publish_marker(&marker.encode())?;
    Ok(marker.features)
}

/// A new store `to` with all that store `from`, which announces `features`, is made of, but for where it is: its marker, if it needs one.
/// What it announces.
pub fn create_alike(to: &dyn Storage, from: &dyn Storage, features: &[String]) -> Result<Vec<String>> {
    let (there, here) = (to.layout(), from.layout());
    let place = here.medium.feature();
    let mut features: Vec<String> = features.iter().filter(|known| place != Some(known)).cloned().collect();
    features.extend(there.medium.feature().map(String::from));
    let marker = from.load_marker()?.map(|text| read_marker(&from.name(), &text)).transpose()?;
    let in_batches = marker.is_some_and(|marker| marker.in_batches);
    if !(features.is_empty() && there == Layout::default()) || in_batches {
        to.publish_marker(&FormatFile { version: 1, layout: there, features: features.clone(), in_batches }.encode())?;
    }
    Ok(features)
}

/// An existing store: its marker must be known, its manifest must ask for no more than the marker says, and the options
/// must not ask for anything else.
pub fn check(storage: &dyn Storage, options: &Options, in_manifest: &[String]) -> Result<Vec<String>> {
    let place = storage.name();
    let marker = storage.load_marker()?.map(|text| read_marker(&place, &text)).transpose()?;
    let (layout, features) = marker.map_or_else(Default::default, |marker| (marker.layout, marker.features));
    if let Some(unknown) = in_manifest.iter().find(|feature| !is_known(feature)) {
        return Err(Error::Unsupported(format!("{place} uses {unknown:?}, which this version does not know")));
    }
    if let Some(lost) = in_manifest.iter().find(|feature| !features.contains(feature)) {
        return Err(Error::Unsupported(format!(
            "{place} uses {lost:?} by its manifest, but its marker file TERRACE does not say so; restore that, or salvage what is \
             there with `terrace repair`"
        )));
    }
    if layout != storage.layout() {
        return Err(Error::Unsupported(format!("{place} was made anew while it was being opened")));
    }
    agree(storage, options, layout)?;
    let unannounced = |(feature, _): &(&str, _)| features.iter().all(|known| known != feature);
    if let Some((_, refused)) = wanted(options).into_iter().find(unannounced) {
        return Err(Error::Unsupported(format!(
            "{refused} is refused: {place} was not created with it, and LevelDB could no longer read the store"
        )));
    }
    Ok(features)
}

/// What `options` ask for by name, a store of this `shape` must have.
fn agree(storage: &dyn Storage, options: &Options, layout: Layout) -> Result<()> {
    for (option, asked, there) in [
        ("tables", options.tables.map(TableForm::name), layout.tables.name()),
        ("values", options.values.map(Values::name), layout.values.name()),
    ] {
        if let Some(asked) = asked.filter(|asked| *asked != there) {
            return Err(Error::Unsupported(format!(
                "{option}={asked} is refused: {} was created with {option}={there}; `terrace convert` copies it into a new store",
                storage.name()
            )));
        }
    }
    Ok(())
}
