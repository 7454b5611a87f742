//! Removes old backups.
use crate::{
    backups::Backups,
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
    /// backup names. This includes the objects of backups that were killed.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the record of a remaining backup is damaged: the objects that it names
    /// are then unknown, so no object is removed. [`remove`](Backups::remove) removes such a
    /// backup. [`Error::InUse`] if another process changes the backups.
    pub fn purge(&self, keep: usize) -> Result<Purged> {
        let _lock = self.lock()?;
        let ids: Vec<u64> = self.contents()?.records.into_keys().collect();
        self.remove_records(&ids[..ids.len().saturating_sub(keep)])
    }

    /// Removes backup `id`, and the objects that no remaining backup names.
    ///
    /// # Errors
    /// The errors of [`purge`](Backups::purge), and [`Error::Missing`] if there is no such backup.
    pub fn remove(&self, id: u64) -> Result<Purged> {
        let _lock = self.lock()?;
        let records = self.contents()?.records;
        if !records.contains_key(&id) {
            return Err(self.missing(id, &records));
        }
        self.remove_records(&[id])
    }

    /// Removes the records first. After a kill, the next purge finds the objects that none names.
    fn remove_records(&self, ids: &[u64]) -> Result<Purged> {
        let contents = self.contents()?;
        let mut purged = Purged::default();
        // Reads the records that stay before anything is removed.
        let mut named = BTreeSet::new();
        for (_, name) in contents.records.iter().filter(|(id, _)| !ids.contains(id)) {
            named.extend(self.record(name)?.files.iter().map(|file| file.object_name()));
        }
        let remove = |name: &str| self.target.remove(name).map_err(Error::io("remove", self.path_of(name)));
        for (id, name) in contents.records.iter().filter(|(id, _)| ids.contains(id)) {
            remove(name)?;
            purged.removed.push(*id);
        }
        for (name, bytes) in contents.objects.iter().filter(|(name, _)| !named.contains(*name)) {
            remove(name)?;
            purged.objects += 1;
            purged.bytes += bytes;
        }
        Ok(purged)
    }
}
