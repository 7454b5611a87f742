//! Flags that several commands share, and how they become keys, values and an open store.
use crate::{bytes::Form, directory::refuse_foreign};
use anyhow::{Context, Result};
use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace::{Damage, Db, Event, Options, ReadOptions};

/// The command line is wrong: exit status 2 instead of 1.
#[derive(Debug)]
pub struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl Usage {
    /// What is wrong with the argument `name`.
    pub fn of(name: &str, problem: impl fmt::Display) -> anyhow::Error {
        Usage(format!("{name}: {problem}\n\nFor more information, try '--help'.")).into()
    }
}

/// A store and how to open it.
#[derive(clap::Args)]
pub struct Store {
    /// Directory of the store.
    #[arg(value_name = "DB")]
    pub path: PathBuf,
    #[command(flatten)]
    settings: Settings,
}

/// How to open a store.
#[derive(clap::Args)]
pub struct Settings {
    /// File of options, as `terrace options` prints it.
    #[arg(long = "options", value_name = "FILE", conflicts_with = "preset")]
    options_file: Option<PathBuf>,
    /// Named set of options; an unknown name lists the known ones. Default: default.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Sets one option; may be repeated. An unknown name lists the known ones.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
}

impl Settings {
    /// The preset with the single options over it.
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

/// One line for each place in a log that an open met and survived.
fn warn_of_damage(event: &Event) {
    if let Event::Damaged { damage: Damage { file, offset, reason } } = event {
        eprintln!("terrace: warning: {file} at byte {offset}: {reason}");
    }
}

impl Store {
    /// The options that the flags ask for, once it is sure that the directory is nobody else's.
    pub fn options(&self) -> Result<Options> {
        let options = self.settings.resolve()?;
        refuse_foreign(&self.path)?;
        Ok(options.listener(Arc::new(warn_of_damage)))
    }

    /// Opens to write; a missing store is an error.
    pub fn open(&self) -> Result<Db> {
        let mut options = self.options()?;
        options.create_if_missing = false;
        Ok(Db::open(&self.path, options)?)
    }

    /// Opens to write; a missing store is made, and the user told.
    pub fn open_or_create(&self) -> Result<Db> {
        self.open_or_create_with(|_| ())
    }

    /// Whether the flags set option `name`, or may.
    pub fn names(&self, name: &str) -> bool {
        let names = |setting: &String| setting.split_once('=').is_some_and(|(named, _)| named == name);
        self.settings.options_file.is_some() || self.settings.options.iter().any(names)
    }

    /// As [`open_or_create`](Self::open_or_create), with options that `change` has changed.
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

    /// Opens to read, beside other readers; changes nothing.
    pub fn open_read_only(&self) -> Result<Db> {
        Ok(Db::open_read_only(&self.path, self.options()?)?)
    }
}

/// How keys and values are read from arguments and shown.
#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Bytes {
    /// Keys and values are hexadecimal digits, two a byte.
    #[arg(long)]
    hex: bool,
    /// Keys and values are text with the escapes \\ \t \n \r \xNN.
    #[arg(long)]
    escape: bool,
}

impl Bytes {
    /// The form that the flags ask for.
    pub fn form(&self) -> Form {
        match (self.hex, self.escape) {
            (true, _) => Form::Hex,
            (_, true) => Form::Escaped,
            _ => Form::Raw,
        }
    }

    /// The bytes of an argument; `name` is for the message if it has none.
    pub fn read(&self, name: &str, text: &OsStr) -> Result<Vec<u8>> {
        self.form().decode(text.as_bytes()).map_err(|error| Usage::of(name, error))
    }

    /// Like [`read`](Bytes::read) for a flag that may be absent.
    pub fn read_flag(&self, name: &str, text: Option<&OsStr>) -> Result<Option<Vec<u8>>> {
        text.map(|text| self.read(name, text)).transpose()
    }

    /// The bytes of a value argument, where `-` means all of stdin. One newline at the end of hexadecimal or
    /// escaped input belongs to the text, not to the value; raw input is taken byte by byte.
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

/// Which keys.
#[derive(clap::Args)]
pub struct Range {
    /// First key.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// End: the first key that is left out.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
}

impl Range {
    /// The range, for one pass over it: keeping its blocks would only push others out.
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
