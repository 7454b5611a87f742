//! What a store turns out to be made of, before a backend is chosen for it.
use crate::{
    Error, Result, Setup,
    backends::files::{fs::FileSystem, root},
    placement::Mode,
};
use terrace_format::{Corrupt, Marker, Shape, Storage, marker::UNKNOWN};

/// What the marker `text` of the store `place` says; [`Error::Unsupported`] if it says what this version does not know.
pub fn read_marker(place: &str, text: &str) -> Result<Marker> {
    Marker::decode(text).map_err(|found: Corrupt| match found.what {
        UNKNOWN => Error::Unsupported(format!("{place}/TERRACE at byte {}: {}", found.offset, found.detail)),
        _ => Error::corrupt(format!("{place}/TERRACE"), 0, found),
    })
}

/// The shape of the store in `fs`: as its marker says, LevelDB's if it has none, and as `setup` says if there is no store yet.
/// What is salvaged may have lost either.
pub(crate) fn of_files(fs: &dyn FileSystem, mode: Mode, setup: &Setup) -> Result<Shape> {
    let wanted = Shape { storage: Storage::Directory, ..setup.shape };
    if mode == Mode::Salvage {
        let marker = root::read_marker_of(fs).ok().flatten().and_then(|text| Marker::decode(&text).ok());
        return Ok(marker.map_or(wanted, |marker| marker.shape));
    }
    if !root::is_there(fs)? {
        return Ok(wanted);
    }
    match root::read_marker_of(fs)? {
        Some(text) => Ok(read_marker(&fs.name(), &text)?.shape),
        None => Ok(Shape::default()),
    }
}
