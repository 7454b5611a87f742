//! Reads a store while another process writes it.
//!
//! A follower takes no lock, so the writer may change and remove files while the follower opens
//! them. The follower reads the manifest, lists the files, replays the WALs of the list, and
//! opens every SSTable. A file that the manifest needs is removed only after a later
//! edit of the manifest, so if a file is missing, the manifest was outdated and another attempt
//! reads a newer one. If no file is missing, the result is a prefix of the history: a WAL that
//! was created after the list has only newer writes. Afterwards the follower needs no name of a
//! file.
use super::{
    Db,
    open::{Access, locate},
};
use crate::{Error, Options, Recovery, Result, work::Executor};
use std::{path::Path, thread, time::Duration};
use terrace_storage::{Location, placement::OpenMode};

/// Number of attempts to open the store, and the wait after a failed attempt.
const ATTEMPTS: u32 = 40;
const WAIT: Duration = Duration::from_millis(10);
/// An error that occurs again this many times in succession is no trace of a change in progress.
const SAME_ERRORS: u32 = 5;

impl Db {
    /// Opens the store in the directory `path` for reading only, even if another process has it
    /// open for writing. The writer does not notice the follower and never waits for it.
    ///
    /// The result shows the store as of one moment during the call: a prefix of the history that
    /// includes every write that returned before the call. Writes without WAL end this prefix until
    /// they are flushed. Later writes are not visible; open the store again to see them. The WALs
    /// are replayed in memory, and every SSTable stays open.
    ///
    /// # Errors
    /// The errors of [`open_read_only`](Db::open_read_only), of which [`Error::InUse`] means
    /// that the writer removed files faster than this call could open them;
    /// [`Error::Unsupported`] for stores on devices, and for stores that are bundled, have
    /// directory tables, or have values in a log.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// let db = Db::open(&path, Options::default())?;
    /// db.put("key", "value")?;
    /// let follower = Db::open_follower(&path, Options::default())?;
    /// db.delete("key")?;
    /// assert_eq!(follower.get("key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_follower(path: impl AsRef<Path>, mut options: Options) -> Result<Db> {
        options.validate()?;
        let location = locate(path.as_ref(), &options)?;
        if !matches!(location, Location::Directory(_)) {
            let text = "a store on a device can be read only by the process that has it open";
            return Err(Error::Unsupported(format!("{}: {text}", path.as_ref().display())));
        }
        // Salvage could skip writes that were only not flushed yet, and the end of a WAL is always
        // within a write in progress.
        (options.recovery, options.paranoid_checks) = (Recovery::Refuse, false);
        let (mut attempt, mut same, mut last) = (1, 0, String::new());
        loop {
            let error = match follow(&location, &options) {
                Err(missing @ Error::Missing { what: "store", .. }) => return Err(missing),
                // The writer may have been in the middle of a change.
                Err(error @ (Error::Missing { .. } | Error::Corrupt { .. } | Error::Io { .. })) => error,
                outcome => return outcome,
            };
            same = if error.to_string() == last { same + 1 } else { 0 };
            if same == SAME_ERRORS {
                return Err(error);
            }
            last = error.to_string();
            if attempt == ATTEMPTS {
                let detail = format!("files changed during each of {ATTEMPTS} attempts to open it: {error}");
                return Err(Error::InUse { path: path.as_ref().display().to_string(), detail });
            }
            thread::sleep(WAIT);
            attempt += 1;
        }
    }
}

/// Opens the store and all its SSTables.
fn follow(location: &Location, options: &Options) -> Result<Db> {
    let storage = terrace_storage::open(location, OpenMode::Follow, options.durability, &options.setup())?;
    let db = Db::build(storage.into(), options.clone(), Executor::Threads, Access::Follow)?;
    let shared = db.shared();
    for (_, table) in shared.view.load().version.all_tables() {
        table.open(&*shared.storage)?;
    }
    Ok(db)
}
