//! Types of the vendor table, `vendors.toml`, which lists the counters of known drives.
use serde::Deserialize;
use std::sync::LazyLock;

/// The vendor table, with its rows in the order of the file.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("vendors.toml")).expect("a test parses it"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub ata: Vec<Family>,
    pub nvme: Vec<Log>,
}

/// A family of ATA drives with the same attributes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Family {
    pub drives: String,
    /// Further attributes that identify the family.
    #[serde(default)]
    pub when: Vec<Attribute>,
    /// Attributes whose sum is the number of bytes programmed.
    #[serde(default)]
    pub nand: Vec<Counter>,
    /// Page counts from which the bytes programmed are derived.
    pub pages: Option<Pages>,
    /// Alternative attributes for the bytes written by the host.
    #[serde(default)]
    pub host: Vec<Counter>,
    /// The reason why drives of this family do not report the bytes programmed into flash.
    pub silent: Option<String>,
}

/// An attribute of `ata_smart_attributes`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attribute {
    pub id: u64,
    pub name: String,
}

/// An attribute that counts bytes, with its unit in bytes.
#[derive(Deserialize)]
pub(super) struct Counter {
    #[serde(flatten)]
    pub attribute: Attribute,
    pub bytes: u64,
}

/// Two attributes: pages programmed for the host, and pages programmed for all other causes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pages {
    pub host: Attribute,
    pub other: Attribute,
}

/// A log page of an NVMe drive, as `nvme` prints it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    pub log: String,
    /// Arguments of `nvme` before the device and `-o json`.
    pub ask: Vec<String>,
    pub when: Vec<String>,
    pub nand: Field,
    pub host: Option<Field>,
}

/// A field that counts bytes, with its unit in bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    pub name: String,
    pub bytes: u64,
}
