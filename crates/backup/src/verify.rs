//! Verifies backups without restoring them.
use crate::{
    backups::Backups,
    error::{Error, Result},
    hash::Hash,
    record::Record,
};
use std::collections::BTreeMap;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of verified backups.
    pub backups: usize,
    /// Number of objects that were read and compared with their SHA-256. Backups share objects, and
    /// each object is read once.
    pub objects: usize,
    /// Bytes of these objects.
    pub bytes: u64,
    /// All damage that was found.
    pub problems: Vec<Problem>,
}

/// Damage in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The number of the damaged backup.
    pub id: u64,
    /// The damaged file of the store; `None` if the record of the backup is damaged.
    pub file: Option<String>,
    /// What is damaged, and how.
    pub detail: String,
}

impl Backups {
    /// Reads all files of backup `id`, or of all backups if `id` is `None`, and compares them with
    /// their SHA-256. Damage is no error: it is in [`Verified::problems`].
    ///
    /// A damaged object is replaced by the next backup of a store that still has the file, if the
    /// damaged object was removed.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such backup; [`Error::Io`] if the place cannot be listed.
    pub fn verify(&self, id: Option<u64>) -> Result<Verified> {
        self.verify_with(id, |_| ())
    }

    /// Works like [`verify`](Backups::verify), and calls `watch` with the number of verified bytes
    /// after each object.
    ///
    /// # Errors
    /// The errors of [`verify`](Backups::verify).
    pub fn verify_with(&self, id: Option<u64>, mut watch: impl FnMut(u64)) -> Result<Verified> {
        let contents = self.contents()?;
        let mut verified = Verified::default();
        let mut outcomes: BTreeMap<Hash, Option<String>> = BTreeMap::new();
        if let Some(id) = id.filter(|id| !contents.records.contains_key(id)) {
            return Err(self.missing(id, &contents.records));
        }
        for (&id, name) in contents.records.iter().filter(|(found, _)| id.is_none_or(|id| id == **found)) {
            verified.backups += 1;
            let record = match self.record(name) {
                Ok(record) => record,
                Err(error) => {
                    verified.problems.push(Problem { id, file: None, detail: error.to_string() });
                    continue;
                }
            };
            self.verify_files(&record, &mut outcomes, &mut verified, &mut watch);
        }
        Ok(verified)
    }

    fn verify_files(
        &self,
        record: &Record,
        outcomes: &mut BTreeMap<Hash, Option<String>>,
        verified: &mut Verified,
        watch: &mut impl FnMut(u64),
    ) {
        for file in &record.files {
            let outcome = outcomes.entry(file.object.clone()).or_insert_with(|| {
                verified.objects += 1;
                verified.bytes += file.bytes;
                let outcome = self.verify_object(&file.object_name(), &file.object).err();
                watch(verified.bytes);
                outcome.map(|error| error.to_string())
            });
            if let Some(detail) = outcome.clone() {
                verified.problems.push(Problem { id: record.id, file: Some(file.name.clone()), detail });
            }
        }
    }

    fn verify_object(&self, name: &str, expected: &Hash) -> Result<()> {
        let path = self.path_of(name);
        let read = self.target.get(name).and_then(|mut object| Hash::of_all(&mut object));
        let (found, _) = read.map_err(Error::io("read", path.clone()))?;
        match found == *expected {
            true => Ok(()),
            false => Err(Error::Damaged { object: path, detail: format!("its SHA-256 is {found}") }),
        }
    }
}
