//! Verifies backups without restoring them.
use crate::{
    backups::{Backups, Contents},
    error::{Error, Result},
    hash::Hash,
    record::{Record, object_name},
};
use std::{collections::BTreeMap, io};

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
    /// The description of the damage.
    pub detail: String,
}

impl Backups {
    /// Reads all files of backup `id`, or of all backups if `id` is `None`, and compares them with
    /// their SHA-256. Damage is no error: it is in [`Verified::problems`].
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such backup; [`Error::Io`] if the place cannot be
    /// listed or an object cannot be read.
    pub fn verify(&self, id: Option<u64>) -> Result<Verified> {
        self.verify_with(id, |_| ())
    }

    /// Works like [`verify`](Backups::verify), and calls `watch` with the number of verified bytes
    /// after each object.
    ///
    /// # Errors
    /// The errors of [`verify`](Backups::verify).
    pub fn verify_with(&self, id: Option<u64>, mut watch: impl FnMut(u64)) -> Result<Verified> {
        self.verify_contents(&self.contents()?, id, &mut watch).map(|(verified, _)| verified)
    }

    /// Verifies all backups, and removes the damaged objects. The next backup of a store that
    /// still has the file of such an object writes the object again, which completes all backups
    /// that name it.
    ///
    /// # Errors
    /// The errors of [`verify`](Backups::verify), and [`Error::InUse`] if another call changes the
    /// backups.
    pub fn remove_damaged(&self) -> Result<Verified> {
        let _lock = self.lock()?;
        let contents = self.contents()?;
        let (verified, damaged) = self.verify_contents(&contents, None, &mut |_| ())?;
        for name in damaged.iter().filter(|name| contents.objects.contains_key(*name)) {
            self.remove_object(name)?;
        }
        Ok(verified)
    }

    /// Verifies backup `id`, or all backups. Also returns the names of the damaged objects.
    fn verify_contents(
        &self,
        contents: &Contents,
        id: Option<u64>,
        watch: &mut impl FnMut(u64),
    ) -> Result<(Verified, Vec<String>)> {
        let mut verified = Verified::default();
        let mut outcomes: BTreeMap<Hash, Option<String>> = BTreeMap::new();
        if let Some(id) = id.filter(|id| !contents.records.contains_key(id)) {
            return Err(self.missing(id, &contents.records));
        }
        for (&id, name) in contents.records.iter().filter(|(found, _)| id.is_none_or(|id| id == **found)) {
            match self.record(name) {
                Ok(record) => {
                    let earlier = verified.problems.len();
                    self.verify_files(&record, &mut outcomes, &mut verified, watch)?;
                    if verified.problems.len() > earlier && !self.contents()?.records.contains_key(&id) {
                        verified.problems.truncate(earlier); // another process is removing the backup
                        continue;
                    }
                }
                Err(error) if error.is_not_found() => continue, // another process has removed the backup
                Err(error @ Error::Damaged { .. }) => {
                    verified.problems.push(Problem { id, file: None, detail: error.to_string() });
                }
                Err(error) => return Err(error),
            }
            verified.backups += 1;
        }
        let damaged = outcomes.into_iter().filter(|(_, outcome)| outcome.is_some());
        Ok((verified, damaged.map(|(object, _)| object_name(&object)).collect()))
    }

    fn verify_files(
        &self,
        record: &Record,
        outcomes: &mut BTreeMap<Hash, Option<String>>,
        verified: &mut Verified,
        watch: &mut impl FnMut(u64),
    ) -> Result<()> {
        for file in &record.files {
            if !outcomes.contains_key(&file.object) {
                verified.objects += 1;
                verified.bytes += file.bytes;
                outcomes.insert(file.object.clone(), self.verify_object(&file.object_name(), &file.object)?);
                watch(verified.bytes);
            }
            if let Some(Some(detail)) = outcomes.get(&file.object) {
                let problem = Problem { id: record.id, file: Some(file.name.clone()), detail: detail.clone() };
                verified.problems.push(problem);
            }
        }
        Ok(())
    }

    /// Returns the damage of the object `name`; `None` if it has the content with the hash
    /// `expected`.
    fn verify_object(&self, name: &str, expected: &Hash) -> Result<Option<String>> {
        let path = self.path_of(name);
        let read = self.target.get(name).and_then(|mut object| Hash::of_all(&mut object));
        let detail = match read {
            Ok((found, _)) if found == *expected => return Ok(None),
            Ok((found, _)) => format!("its SHA-256 is {found}"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it is missing".into(),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        Ok(Some(Error::Damaged { object: path, detail }.to_string()))
    }
}
