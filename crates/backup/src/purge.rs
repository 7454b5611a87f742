//! Removes old backups.
use crate::{
    backups::{Backups, Contents},
    error::{Error, Result},
};
use std::collections::BTreeSet;

/// The result of a removal of backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// The numbers of the removed backups.
    pub removed: Vec<u64>,
    /// Number of objects that were removed, because no backup names them any more.
    pub objects: usize,
    /// Bytes of these objects.
    pub bytes: u64,
}

impl Backups {
    /// Removes all backups except for the newest `keep` backups, and the objects that no remaining
    /// backup names. This includes objects left by interrupted backups.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the record of a remaining backup is damaged: the objects that it names
    /// are then unknown, so nothing is removed. [`remove`](Backups::remove) removes such a backup.
    /// [`Error::InUse`] if another call changes the backups. [`Error::Io`] if an object cannot be
    /// removed; the next purge continues.
    pub fn purge(&self, keep: usize) -> Result<Purged> {
        let _lock = self.lock()?;
        let contents = self.contents()?;
        let ids: Vec<u64> = contents.records.keys().copied().collect();
        let ids = &ids[..ids.len().saturating_sub(keep)];
        let named = self.named_except(&contents, ids)?;
        let mut purged = self.remove_records(&contents, ids)?;
        self.remove_objects(&contents, &named, &mut purged)?;
        Ok(purged)
    }

    /// Removes backup `id`, and the objects that no remaining backup names. If the record of
    /// another backup is damaged, the objects that it names are unknown, so no object is removed.
    ///
    /// # Errors
    /// The errors of [`purge`](Backups::purge), and [`Error::Missing`] if there is no such backup.
    pub fn remove(&self, id: u64) -> Result<Purged> {
        let _lock = self.lock()?;
        let contents = self.contents()?;
        if !contents.records.contains_key(&id) {
            return Err(self.missing(id, &contents.records));
        }
        let named = match self.named_except(&contents, &[id]) {
            Err(Error::Damaged { .. }) => None,
            named => Some(named?),
        };
        let mut purged = self.remove_records(&contents, &[id])?;
        if let Some(named) = named {
            self.remove_objects(&contents, &named, &mut purged)?;
        }
        Ok(purged)
    }

    /// Returns the names of the objects of all backups except for `ids`.
    fn named_except(&self, contents: &Contents, ids: &[u64]) -> Result<BTreeSet<String>> {
        let mut named = BTreeSet::new();
        for (_, name) in contents.records.iter().filter(|(id, _)| !ids.contains(id)) {
            named.extend(self.record(name)?.files.iter().map(|file| file.object_name()));
        }
        Ok(named)
    }

    /// Removes records. They are removed before objects: after a kill, the next purge finds the
    /// objects that no record names.
    fn remove_records(&self, contents: &Contents, ids: &[u64]) -> Result<Purged> {
        let mut purged = Purged::default();
        for (id, name) in contents.records.iter().filter(|(id, _)| ids.contains(id)) {
            self.remove_object(name)?;
            purged.removed.push(*id);
        }
        Ok(purged)
    }

    fn remove_objects(&self, contents: &Contents, named: &BTreeSet<String>, purged: &mut Purged) -> Result<()> {
        for (name, bytes) in contents.objects.iter().filter(|(name, _)| !named.contains(*name)) {
            self.remove_object(name)?;
            purged.objects += 1;
            purged.bytes += bytes;
        }
        Ok(())
    }

    pub(crate) fn remove_object(&self, name: &str) -> Result<()> {
        self.target.remove(name).map_err(Error::io("remove", self.path_of(name)))
    }
}
