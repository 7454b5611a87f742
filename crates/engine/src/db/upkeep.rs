//! What is done to a whole store from outside.
use super::Db;
use crate::{Error, Options, RepairReport, Result, repair_on};
use std::path::Path;
use terrace_storage::{Location, lies_in, placement::Mode};

impl Db {
    /// Salvages what can be read of the damaged store in directory `from`, whatever is left of it, into a new store in
    /// directory `to`, which must be absent or empty and outside of `from`. Changes nothing in `from`, which nobody may be
    /// writing. Try [`Db::open`] first: a store that opens needs no repair.
    ///
    /// Of each key the newest readable version counts, out of every table and log, unless a whole manifest says that a file was
    /// no longer in use. `options` say how the new store is made; its order of keys must be that of the old one.
    ///
    /// # Errors
    /// Damage is no error: it is told in [`RepairReport::lost`]. [`Error::Missing`] where `from` is not there,
    /// [`Error::Invalid`] where `to` will not do or the comparator is another. After an error `to` holds no store.
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &Options) -> Result<RepairReport> {
        options.validate()?;
        let (from, to) = (from.as_ref(), to.as_ref());
        let damaged = terrace_storage::open(
            &Location::Directory(from.into()),
            Mode::Salvage,
            options.durability,
            &options.setup(),
        )?;
        if lies_in(to, from)? {
            let text = format!("{} lies in {}, in which a repair writes nothing", to.display(), from.display());
            return Err(Error::Invalid(text));
        }
        let location = Location::Directory(to.into());
        let fresh = terrace_storage::open(&location, Mode::Create, options.durability, &options.setup())?;
        repair_on(&*damaged, &*fresh, options)
    }
}
