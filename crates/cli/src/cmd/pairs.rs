//! `put`, `get`, `delete`: operations on one key.
use crate::args::{Bytes, Family, Follow, Store};
use anyhow::{Result, bail};
use std::{ffi::OsString, io::Write};

/// Stores a value under a key. Creates the store if it is missing.
#[derive(clap::Args)]
pub struct Put {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    family: Family,
    /// The key; after `--` it may begin with a hyphen.
    key: OsString,
    /// The value; `-` reads it from stdin (a single hyphen is `--escape '\x2d'`).
    value: OsString,
    #[command(flatten)]
    bytes: Bytes,
}

impl Put {
    /// Stores the pair. The pair is durable when this call returns.
    pub fn run(&self) -> Result<()> {
        let key = self.bytes.read("KEY", &self.key)?;
        let value = self.bytes.read_value("VALUE", &self.value)?;
        let db = self.store.open_or_create()?;
        self.family.of_or_create(&db)?.put(key, value)?;
        Ok(db.close()?)
    }
}

/// Prints the value of a key and a newline. Exits with 1 if the key does not exist.
#[derive(clap::Args)]
pub struct Get {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    family: Family,
    /// The key; after `--` it may begin with a hyphen.
    key: OsString,
    /// Print the value without a final newline.
    #[arg(short = 'n', long)]
    no_newline: bool,
    #[command(flatten)]
    bytes: Bytes,
}

impl Get {
    /// Prints the value. Returns an error if the key is absent.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let key = self.bytes.read("KEY", &self.key)?;
        let db = self.store.open_to_read(&self.follow)?;
        let Some(value) = self.family.of(&db)?.get(key)? else { bail!("no such key") };
        let mut text = Vec::new();
        self.bytes.form().encode(&value, &mut text);
        if !self.no_newline {
            text.push(b'\n');
        }
        Ok(out.write_all(&text)?)
    }
}

/// Deletes a key. Deleting an absent key succeeds.
#[derive(clap::Args)]
pub struct Delete {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    family: Family,
    /// The key; after `--` it may begin with a hyphen.
    key: OsString,
    #[command(flatten)]
    bytes: Bytes,
}

impl Delete {
    /// Deletes the key. The delete is durable when this returns.
    pub fn run(&self) -> Result<()> {
        let key = self.bytes.read("KEY", &self.key)?;
        let db = self.store.open()?;
        self.family.of(&db)?.delete(key)?;
        Ok(db.close()?)
    }
}
