//! The format file of a store: its layout, its feature flags, and the check of options against
//! them.
//!
//! A directory without a format file, or with one that only records a durability mode, is a
//! LevelDB store. It stays readable to LevelDB: if an option would make such a store unreadable to
//! LevelDB, the open is refused with an error that names the option.
use crate::{CompactionStyle, Error, Options, Result};
use terrace_format::{
    Layout, TableForm, Values,
    compress::Codec,
    edit::{COLUMN_FAMILIES, SORTED_RUNS},
    format_file::{FormatFile, is_known},
    range_tombstones,
    value_log::WAL_SIDECAR,
};
use terrace_storage::{DurabilityMode, layout::decode_format_file, placement::Storage};

const LZ4: &str = "lz4";

/// Returns the feature flags that `options` require in addition to those of the layout. Each flag
/// comes with the option that requires it.
fn wanted(options: &Options) -> Vec<(&'static str, &'static str)> {
    let lz4 = (options.compression == Codec::Lz4).then_some((LZ4, "compression=lz4"));
    let universal = options.compaction_style == CompactionStyle::Universal;
    lz4.into_iter()
        .chain(universal.then_some((SORTED_RUNS, "compaction_style=universal")))
        .chain(options.range_tombstones.then_some((range_tombstones::FEATURE, "range_tombstones=on")))
        .collect()
}

/// Creates the format file of a new store if the store needs one. The file must exist before the
/// store uses any of its feature flags. Returns the feature flags.
pub fn create(storage: &dyn Storage, options: &Options) -> Result<Vec<String>> {
    let layout = storage.layout();
    agree(storage, options, layout)?;
    let mut features: Vec<_> = wanted(options).into_iter().map(|(feature, _)| feature).collect();
    features.extend((layout.values == Values::Log && options.wal_sidecar).then_some(WAL_SIDECAR));
    let is_leveldbs = features.is_empty() && layout == Layout::default();
    let in_batches = options.durability == DurabilityMode::Inherit;
    // A format file may be left over from an interrupted creation or removal of another store. It
    // does not describe this new store, so it is replaced, unless its format is unsupported.
    let left = match storage.load_format_file() {
        Ok(text) => text.map(|text| decode_format_file(&storage.name(), &text)).transpose(),
        Err(unread) => Err(unread),
    };
    match left {
        Err(unknown @ terrace_storage::Error::Unsupported(_)) => return Err(unknown.into()),
        Ok(None) if is_leveldbs && !in_batches => return Ok(Vec::new()),
        _ => {} // replaced, readable or not
    }
    if !is_leveldbs && !options.range_tombstones {
        features.push(range_tombstones::FEATURE); // LevelDB cannot read this layout in any case
    }
    let file = FormatFile { in_batches, ..FormatFile::new(layout, features) };
    storage.publish_format_file(&file.encode())?;
    Ok(file.features)
}

/// Adds the feature flag for column families to the format file. `known` are the feature flags
/// with which the store was opened.
pub fn announce_families(storage: &dyn Storage, known: &[String]) -> Result<()> {
    if known.iter().any(|feature| feature == COLUMN_FAMILIES) {
        return Ok(());
    }
    let file = storage.load_format_file()?.map(|text| decode_format_file(&storage.name(), &text)).transpose()?;
    let mut file = file.unwrap_or_else(|| FormatFile::new(storage.layout(), []));
    if !file.features.iter().any(|feature| feature == COLUMN_FAMILIES) {
        file.features.push(COLUMN_FAMILIES.into());
        storage.publish_format_file(&file.encode())?;
    }
    Ok(())
}

/// Refuses the repair, without a manifest, of a store with column families: the repair would not
/// know the family of a table, and would merge the key spaces.
pub fn refuse_families(storage: &dyn Storage) -> Result<()> {
    let text = storage.load_format_file().ok().flatten();
    let file = text.and_then(|text| decode_format_file(&storage.name(), &text).ok());
    let announced = file.map_or_else(Vec::new, |file| file.features);
    if announced.iter().any(|feature| feature == COLUMN_FAMILIES) {
        let name = storage.name();
        return Err(Error::Unsupported(format!(
            "{name} has column families, and no manifest can be read that names the SSTables of each family; restore a checkpoint of the store"
        )));
    }
    Ok(())
}

/// Gives the new store `to` the layout of store `from` and the feature flags `features`. The
/// medium of `to` stays as it is. Creates a format file if `to` needs one. Returns the feature
/// flags of `to`.
pub fn create_alike(to: &dyn Storage, from: &dyn Storage, features: &[String]) -> Result<Vec<String>> {
    let (there, here) = (to.layout(), from.layout());
    let place = here.medium.feature();
    let mut features: Vec<String> = features.iter().filter(|known| place != Some(known)).cloned().collect();
    features.extend(there.medium.feature().map(String::from));
    let file = from.load_format_file()?.map(|text| decode_format_file(&from.name(), &text)).transpose()?;
    let in_batches = file.is_some_and(|file| file.in_batches);
    if !(features.is_empty() && there == Layout::default()) || in_batches {
        to.publish_format_file(
            &FormatFile { version: 1, layout: there, features: features.clone(), in_batches }.encode(),
        )?;
    }
    Ok(features)
}

/// Checks an existing store. Its format file must be of a known version, its manifest must not
/// require a feature that the format file lacks, and the options must not request a feature that
/// the store does not have. Returns the feature flags of the store.
pub fn check(storage: &dyn Storage, options: &Options, in_manifest: &[String]) -> Result<Vec<String>> {
    let place = storage.name();
    let file = storage.load_format_file()?.map(|text| decode_format_file(&place, &text)).transpose()?;
    let (layout, features) = file.map_or_else(Default::default, |file| (file.layout, file.features));
    if let Some(unknown) = in_manifest.iter().find(|feature| !is_known(feature)) {
        return Err(Error::Unsupported(format!("{place} uses {unknown:?}, which this version does not know")));
    }
    if let Some(lost) = in_manifest.iter().find(|feature| !features.contains(feature)) {
        return Err(Error::Unsupported(format!(
            "{place} uses {lost:?} by its manifest, but its format file TERRACE does not list it; restore that file, or salvage the \
             store with `terrace repair`"
        )));
    }
    if layout != storage.layout() {
        return Err(Error::Unsupported(format!("{place} was created again while it was being opened")));
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

/// Refuses options that name another layout than that of the store.
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
