//! Finds the file that contains a table.
use super::{Input, Store, bundle};
use crate::{Error, Result, placement::TableMeta};
use terrace_format::FileName;

/// Opens the file of `table`. For a table in a bundle, opens the table's part of the bundle.
pub(in crate::backends) fn find_table(store: &Store, table: &TableMeta) -> Result<Input> {
    if let Some(within) = table.within {
        return bundle::open(store, within, table.bytes);
    }
    let id = table.id;
    let [ours, alternative] = [FileName::Table(id).to_string(), FileName::table_alternative(id)];
    match store.open_file("table", &ours) {
        // The file of a table may have one of two names. If both are missing, the error shows the
        // name that Terrace gives to new files.
        Err(missing @ Error::Missing { .. }) => match store.open_file("table", &alternative) {
            Err(Error::Missing { .. }) => Err(missing),
            found => found,
        },
        found => found,
    }
}

/// Opens the file of `meta` and checks its size.
pub(in crate::backends) fn open_input(store: &Store, meta: &TableMeta) -> Result<Input> {
    let mut input = find_table(store, meta)?;
    input.end_at(meta.bytes); // the file may have more bytes than the table
    if input.bytes != meta.bytes {
        let detail = format!("{} bytes long, where the manifest says {}", input.bytes, meta.bytes);
        let offset = input.bytes.min(meta.bytes);
        return Err(Error::Corrupt { what: "table", object: input.name, offset, detail });
    }
    // Tables in bundles are not mapped. A mapped file must not change, but the space of
    // another table in the same bundle may be deallocated at any time.
    if store.maps() && meta.within.is_none() {
        input.map();
    }
    Ok(input)
}
