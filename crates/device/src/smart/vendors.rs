//! The table of what drives tell, `vendors.toml`, as types.
use serde::Deserialize;
use std::sync::LazyLock;

/// All rows, in their order.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("vendors.toml")).expect("a test parses it"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub ata: Vec<Family>,
    pub nvme: Vec<Log>,
}

/// ATA drives that tell alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Family {
    pub drives: String,
    /// Attributes by which such a drive is known, beside those that are read.
    #[serde(default)]
    pub when: Vec<Attribute>,
    /// All of them together are the bytes programmed.
    #[serde(default)]
    pub nand: Vec<Counter>,
    /// Pages programmed, from which the bytes programmed follow by proportion.
    pub pages: Option<Pages>,
    /// Each of them alone is the bytes that the host wrote.
    #[serde(default)]
    pub host: Vec<Counter>,
    /// Why such a drive does not tell the bytes programmed.
    pub silent: Option<String>,
}

/// An attribute of `ata_smart_attributes`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attribute {
    pub id: u64,
    pub name: String,
}

/// An attribute that counts units of so many bytes.
#[derive(Deserialize)]
pub(super) struct Counter {
    #[serde(flatten)]
    pub attribute: Attribute,
    pub bytes: u64,
}

/// Attributes that count pages programmed for the host and for all else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pages {
    pub host: Attribute,
    pub other: Attribute,
}

/// A log page of NVMe drives, as `nvme` prints it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    pub log: String,
    /// What `nvme` is asked, before the device and `-o json`.
    pub ask: Vec<String>,
    pub when: Vec<String>,
    pub nand: Field,
    pub host: Option<Field>,
}

/// A field that counts units of so many bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    pub name: String,
    pub bytes: u64,
}
