//! The marker: what a store remembers of how it is kept, and which options it therefore refuses.
//!
//! A directory without marker, or with one that only says how it becomes durable, is a LevelDB store and stays one. What LevelDB
//! could not read is refused there by name.
use crate::{Error, Options, Result};
use terrace_format::{
    Shape, TableForm, Values,
    compress::Codec,
    marker::{Marker, is_known},
    range_deletes,
    value_log::SMALL_LOG,
};
use terrace_storage::{Tier, placement::Placement, shape::read_marker};

const LZ4: &str = "lz4";

/// Features that `options` would use beside those of a shape, and how they ask for them.
fn wanted(options: &Options) -> Vec<(&'static str, &'static str)> {
    let lz4 = (options.compression == Codec::Lz4).then_some((LZ4, "compression=lz4"));
    lz4.into_iter().chain(options.range_deletes.then_some((range_deletes::FEATURE, "range_deletes=on"))).collect()
}

/// A new store: writes a marker if there is something to remember, before the first use of what it announces.
pub fn create(placement: &dyn Placement, options: &Options) -> Result<Vec<String>> {
    let shape = placement.shape();
    agree(placement, options, shape)?;
    let mut features: Vec<_> = wanted(options).into_iter().map(|(feature, _)| feature).collect();
    features.extend((shape.values == Values::Log && options.small_log).then_some(SMALL_LOG));
    let is_leveldbs = features.is_empty() && shape == Shape::default();
    let in_batches = options.durability == Tier::AsMade;
    // One that a creation, or a removal, which was cut short has left says what that store was made of, not what this one is.
    let left = match placement.load_marker() {
        Ok(text) => text.map(|text| read_marker(&placement.name(), &text)).transpose(),
        Err(unread) => Err(unread),
    };
    match left {
        Err(unknown @ terrace_storage::Error::Unsupported(_)) => return Err(unknown.into()),
        Ok(None) if is_leveldbs && !in_batches => return Ok(Vec::new()),
        _ => {} // it is replaced, readable or not
    }
    if !is_leveldbs && !options.range_deletes {
        features.push(range_deletes::FEATURE); // nobody is left who could not read them
    }
    let marker = Marker { in_batches, ..Marker::new(shape, features) };
    placement.publish_marker(&marker.encode())?;
    Ok(marker.features)
}

/// A new store `to` with all that store `from`, which announces `features`, is made of, but for where it is: its marker, if it needs one.
/// What it announces.
pub fn create_alike(to: &dyn Placement, from: &dyn Placement, features: &[String]) -> Result<Vec<String>> {
    let (there, here) = (to.shape(), from.shape());
    let place = here.storage.feature();
    let mut features: Vec<String> = features.iter().filter(|known| place != Some(known)).cloned().collect();
    features.extend(there.storage.feature().map(String::from));
    let marker = from.load_marker()?.map(|text| read_marker(&from.name(), &text)).transpose()?;
    let in_batches = marker.is_some_and(|marker| marker.in_batches);
    if !(features.is_empty() && there == Shape::default()) || in_batches {
        to.publish_marker(&Marker { version: 1, shape: there, features: features.clone(), in_batches }.encode())?;
    }
    Ok(features)
}

/// An existing store: its marker must be known, its manifest must ask for no more than the marker says, and the options
/// must not ask for anything else.
pub fn check(placement: &dyn Placement, options: &Options, in_manifest: &[String]) -> Result<Vec<String>> {
    let place = placement.name();
    let marker = placement.load_marker()?.map(|text| read_marker(&place, &text)).transpose()?;
    let (shape, features) = marker.map_or_else(Default::default, |marker| (marker.shape, marker.features));
    if let Some(unknown) = in_manifest.iter().find(|feature| !is_known(feature)) {
        return Err(Error::Unsupported(format!("{place} uses {unknown:?}, which this version does not know")));
    }
    if let Some(lost) = in_manifest.iter().find(|feature| !features.contains(feature)) {
        return Err(Error::Unsupported(format!(
            "{place} uses {lost:?} by its manifest, but its marker file TERRACE does not say so; restore that, or salvage what is \
             there with `terrace repair`"
        )));
    }
    if shape != placement.shape() {
        return Err(Error::Unsupported(format!("{place} was made anew while it was being opened")));
    }
    agree(placement, options, shape)?;
    let unannounced = |(feature, _): &(&str, _)| features.iter().all(|known| known != feature);
    if let Some((_, refused)) = wanted(options).into_iter().find(unannounced) {
        return Err(Error::Unsupported(format!(
            "{refused} is refused: {place} was not created with it, and LevelDB could no longer read the store"
        )));
    }
    Ok(features)
}

/// What `options` ask for by name, a store of this `shape` must have.
fn agree(placement: &dyn Placement, options: &Options, shape: Shape) -> Result<()> {
    for (option, asked, there) in [
        ("tables", options.tables.map(TableForm::name), shape.tables.name()),
        ("values", options.values.map(Values::name), shape.values.name()),
    ] {
        if let Some(asked) = asked.filter(|asked| *asked != there) {
            return Err(Error::Unsupported(format!(
                "{option}={asked} is refused: {} was created with {option}={there}; `terrace convert` copies it into a new store",
                placement.name()
            )));
        }
    }
    Ok(())
}
