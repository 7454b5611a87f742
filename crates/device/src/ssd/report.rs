//! The drive's report: counters, wear and recent write amplification, as exact values and in the
//! form of `smartctl --json`.
use serde_json::{Value, json};

use super::counts::{Cause, Counts};
use super::ftl::Ftl;
use super::profile::Profile;
use super::windows::{Window, Windows};

/// Unit in bytes of the report's SMART attributes that count bytes.
const ATTRIBUTE_BYTES: u64 = 32 << 20;

/// The drive's report at one time.
#[derive(Clone, Debug)]
pub struct Report {
    /// The profile.
    pub profile: Profile,
    /// Counters since the drive was new.
    pub counts: Counts,
    /// The last windows, oldest first.
    pub windows: Vec<Window>,
    /// Number of superblocks.
    pub superblocks: u64,
    /// Smallest and largest erase count of a superblock.
    pub erases: (u32, u32),
    /// Bytes of mapped pages.
    pub mapped_bytes: u64,
    /// Simulated time in seconds, if the profile has latencies.
    pub simulated_seconds: Option<f64>,
}

impl Report {
    /// Returns the report of a drive and its windows.
    pub fn new(ftl: &Ftl, windows: &Windows) -> Report {
        let (least, most) =
            ftl.erases().fold((u32::MAX, 0), |(least, most), erases| (erases.min(least), erases.max(most)));
        Report {
            profile: ftl.profile().clone(),
            counts: ftl.counts().clone(),
            windows: windows.ended().collect(),
            superblocks: ftl.profile().superblocks(),
            erases: (least, most),
            mapped_bytes: ftl.mapped_bytes(),
            simulated_seconds: ftl.simulated_time().map(|time| time.as_secs_f64()),
        }
    }

    /// Encodes the report as `smartctl --json --all` would for an ATA drive. The field `terrace`
    /// contains the exact values for which that form has no field.
    pub fn json(&self) -> Value {
        let Report { profile, counts, .. } = self;
        let erases = counts.erases / self.superblocks.max(1);
        let attribute = |id: u32, name: &str, raw: u64| {
            json!({ "id": id, "name": name, "value": 100, "worst": 100, "thresh": 0, "when_failed": "",
                "raw": { "value": raw, "string": raw.to_string() } })
        };
        json!({
            "json_format_version": [1, 0],
            "device": { "name": profile.name, "info_name": profile.name, "type": "virtual", "protocol": "ATA" },
            "model_name": format!("Terrace virtual SSD {}", profile.name),
            "user_capacity": { "blocks": profile.capacity_bytes / 512, "bytes": profile.capacity_bytes },
            "logical_block_size": 4096,
            "physical_block_size": profile.page_bytes,
            "ata_smart_attributes": { "table": [
                attribute(173, "Ave_Block-Erase_Count", erases),
                attribute(241, "Host_Writes_32MiB", counts.host_bytes / ATTRIBUTE_BYTES),
                attribute(242, "Host_Reads_32MiB", counts.read_bytes / ATTRIBUTE_BYTES),
                attribute(243, "NAND_Writes_32MiB", counts.nand_bytes() / ATTRIBUTE_BYTES),
            ] },
            "terrace": self.exact_json(),
        })
    }

    fn exact_json(&self) -> Value {
        let Report { profile, counts, .. } = self;
        let cause = |cause: Cause| (cause.name().to_owned(), Value::from(counts.nand(cause)));
        let window = |window: &Window| json!({ "host_bytes": window.host_bytes, "nand_bytes": window.nand_bytes, "wa2": window.wa2() });
        json!({
            "profile": profile,
            "host_bytes": counts.host_bytes,
            "read_bytes": counts.read_bytes,
            "trimmed_bytes": counts.trimmed_bytes,
            "mapped_bytes": self.mapped_bytes,
            "flushes": counts.flushes,
            "nand_bytes": counts.nand_bytes(),
            "nand_bytes_by_cause": Cause::ALL.map(cause).into_iter().collect::<serde_json::Map<_, _>>(),
            "wa2": counts.wa2(),
            "windows": self.windows.iter().map(window).collect::<Vec<_>>(),
            "superblocks": self.superblocks,
            "superblock_bytes": profile.superblock_bytes(),
            "erases": counts.erases,
            "erases_least": self.erases.0,
            "erases_most": self.erases.1,
            "simulated_seconds": self.simulated_seconds,
        })
    }
}
