//! Flags that several commands share, and their conversion to keys, values and an open store.
use crate::{bytes::Form, directory::refuse_foreign};
use anyhow::{Context, Result};
use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace::{ColumnFamily, Damage, Db, Error, Event, Options, ReadOptions};

/// The name of the column family that every store has.
pub const DEFAULT_FAMILY: &str = "default";

/// A usage error. The command then exits with status 2 instead of 1.
#[derive(Debug)]
pub struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl Usage {
    /// Reports a problem with the argument `name`.
    pub fn of(name: &str, problem: impl fmt::Display) -> anyhow::Error {
        Usage(format!("{name}: {problem}\n\nFor more information, try '--help'.")).into()
    }
}

/// The path of a store and the flags for opening it.
#[derive(clap::Args)]
pub struct Store {
    /// Directory of the store.
    #[arg(value_name = "DB")]
    pub path: PathBuf,
    #[command(flatten)]
    settings: Settings,
}

/// Flags that select the options of a store.
#[derive(clap::Args)]
pub struct Settings {
    /// Options file, as `terrace options` prints it.
    #[arg(long = "options", value_name = "FILE", conflicts_with = "preset")]
    options_file: Option<PathBuf>,
    /// Preset to start from; an unknown name lists the known ones. Default: default.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Set one option, repeatable.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
}

impl Settings {
    /// Returns the options of the options file or preset, changed by the single options.
    pub fn resolve(&self) -> Result<Options> {
        let mut options = match (&self.options_file, &self.preset) {
            (Some(file), _) => read_options(file)?,
            (None, Some(name)) => Options::preset(name).map_err(|error| Usage::of("--preset", error))?,
            (None, None) => Options::default(),
        };
        for setting in &self.options {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Usage::of("--option", format!("'{setting}' is not of the form NAME=VALUE")));
            };
            options.set(name, value).map_err(|error| Usage::of("--option", error))?;
        }
        options.validate().map_err(|error| Usage::of("--option", error))?;
        Ok(options)
    }
}

fn read_options(file: &Path) -> Result<Options> {
    let text =
        fs::read_to_string(file).map_err(|error| Usage::of("--options", format!("{}: {error}", file.display())))?;
    Options::from_text(&text).map_err(|error| Usage::of("--options", format!("{}: {error}", file.display())))
}

/// Prints one line for each damaged range of a WAL that the open skipped.
fn warn_of_damage(event: &Event) {
    if let Event::Damaged { damage: Damage { file, offset, reason } } = event {
        eprintln!("terrace: warning: {file} at byte {offset}: {reason}");
    }
}

impl Store {
    /// Returns the options that the flags select. First checks that the directory does not belong
    /// to another program.
    pub fn options(&self) -> Result<Options> {
        let options = self.settings.resolve()?;
        refuse_foreign(&self.path)?;
        Ok(options.listener(Arc::new(warn_of_damage)))
    }

    /// Opens the store for writing. A missing store is an error.
    pub fn open(&self) -> Result<Db> {
        let mut options = self.options()?;
        options.create_if_missing = false;
        Ok(Db::open(&self.path, options)?)
    }

    /// Opens the store for writing. Creates a missing store and prints that it was created.
    pub fn open_or_create(&self) -> Result<Db> {
        self.open_or_create_with(|_| ())
    }

    /// Returns whether the flags set option `name`. With an options file the result is always true,
    /// because the file may set the option.
    pub fn names(&self, name: &str) -> bool {
        let names = |setting: &String| setting.split_once('=').is_some_and(|(named, _)| named == name);
        self.settings.options_file.is_some() || self.settings.options.iter().any(names)
    }

    /// Like [`open_or_create`](Self::open_or_create), with options that `change` changes.
    pub fn open_or_create_with(&self, change: impl FnOnce(&mut Options)) -> Result<Db> {
        let fresh = !self.path.exists();
        let mut options = self.options()?;
        change(&mut options);
        options.create_if_missing = true;
        let db = Db::open(&self.path, options)?;
        if fresh {
            eprintln!("created {}", self.path.display());
        }
        Ok(db)
    }

    /// Opens the store for reading, concurrently with other readers. Changes nothing.
    pub fn open_read_only(&self) -> Result<Db> {
        Ok(Db::open_read_only(&self.path, self.options()?)?)
    }

    /// Opens the store for reading, with `--follow` even while a process writes it.
    pub fn open_to_read(&self, follow: &Follow) -> Result<Db> {
        if !follow.follow {
            return Ok(Db::open_read_only(&self.path, self.options()?).map_err(|error| match error {
                Error::InUse { path, detail } => {
                    Error::InUse { path, detail: format!("{detail}; --follow reads it nevertheless") }
                }
                error => error,
            })?);
        }
        Ok(Db::open_follower(&self.path, self.options()?)?)
    }
}

/// The flag of commands that can read a store while a process writes it.
#[derive(clap::Args)]
pub struct Follow {
    /// Read the store even if a process has it open for writing: its state at this moment.
    #[arg(long)]
    follow: bool,
}

/// The flag that selects a column family.
#[derive(clap::Args)]
pub struct Family {
    /// Column family. Default: `default`, which every store has.
    #[arg(long = "cf", visible_alias = "column-family", value_name = "NAME")]
    name: Option<String>,
}

impl Family {
    /// Returns the selected family of the store.
    pub fn of(&self, db: &Db) -> Result<ColumnFamily> {
        Ok(db.cf(self.name.as_deref().unwrap_or(DEFAULT_FAMILY))?)
    }

    /// Returns the selected family. Creates a missing one and prints that it was created.
    pub fn of_or_create(&self, db: &Db) -> Result<ColumnFamily> {
        match &self.name {
            Some(name) if !db.cf_names().contains(name) => {
                let created = db.create_cf(name)?;
                eprintln!("created column family {name}");
                Ok(created)
            }
            _ => self.of(db),
        }
    }

    /// Returns the selected family. Without the flag, the store may have only one family; otherwise
    /// the command would leave out pairs of the other families, and the user would not notice.
    pub fn of_only(&self, db: &Db) -> Result<ColumnFamily> {
        let names = db.cf_names();
        if self.name.is_none() && names.len() > 1 {
            let names = names.join(", ");
            return Err(Usage::of("--cf", format!("the store has the column families {names}; name one of them")));
        }
        self.of(db)
    }

    /// Returns the selected family, or all families without the flag.
    pub fn of_or_all(&self, db: &Db) -> Result<Vec<ColumnFamily>> {
        match &self.name {
            Some(_) => Ok(vec![self.of(db)?]),
            None => Ok(db.cf_names().iter().map(|name| db.cf(name)).collect::<terrace::Result<_>>()?),
        }
    }
}

/// Flags that select the form of keys and values in arguments and output.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Bytes {
    /// Keys and values are hexadecimal, two digits per byte.
    #[arg(long)]
    hex: bool,
    /// Keys and values are text with the escapes \\ \t \n \r \xNN.
    #[arg(long)]
    escape: bool,
}

impl Bytes {
    /// Returns the form that the flags select.
    pub fn form(&self) -> Form {
        match (self.hex, self.escape) {
            (true, _) => Form::Hex,
            (_, true) => Form::Escaped,
            _ => Form::Raw,
        }
    }

    /// Decodes an argument. `name` is the argument's name in the error message.
    pub fn read(&self, name: &str, text: &OsStr) -> Result<Vec<u8>> {
        self.form().decode(text.as_encoded_bytes()).map_err(|error| Usage::of(name, error))
    }

    /// Like [`read`](Bytes::read), for an optional flag.
    pub fn read_flag(&self, name: &str, text: Option<&OsStr>) -> Result<Option<Vec<u8>>> {
        text.map(|text| self.read(name, text)).transpose()
    }

    /// Decodes a value argument. The value `-` means all of stdin. If the input is hexadecimal or
    /// escaped, one final newline is not part of the value. Raw input is taken byte for byte.
    pub fn read_value(&self, name: &str, text: &OsStr) -> Result<Vec<u8>> {
        if text != "-" {
            return self.read(name, text);
        }
        let mut input = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut input).context("read stdin")?;
        if self.form() != Form::Raw && input.last() == Some(&b'\n') {
            input.pop();
        }
        self.form().decode(&input).context("stdin")
    }
}

/// A key range.
#[derive(clap::Args)]
pub struct Range {
    /// First key.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// End of the range, exclusive.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys with this prefix.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
}

impl Range {
    /// Returns read options for one pass over the range. The pass does not fill the block cache,
    /// because it reads each block only once, and its blocks would evict blocks that other reads
    /// need.
    pub fn options(&self, bytes: &Bytes) -> Result<ReadOptions> {
        let mut options = ReadOptions::new().fill_cache(false);
        if let Some(from) = bytes.read_flag("--from", self.from.as_deref())? {
            options = options.from(from);
        }
        if let Some(to) = bytes.read_flag("--to", self.to.as_deref())? {
            options = options.to(to);
        }
        if let Some(prefix) = bytes.read_flag("--prefix", self.prefix.as_deref())? {
            options = options.prefix(prefix);
        }
        Ok(options)
    }
}
