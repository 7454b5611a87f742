//! `raw format`: prepares a block device, or a file used as one, for a store without a file
//! system.
use crate::{args::Usage, table::size};
use anyhow::Result;
use serde_json::json;
use std::{fs, io::Write, path::PathBuf};
use terrace::parse_size;
use terrace_storage::backends::raw::{Sizes, make_file, prepare, split};

/// Prepares a device for a store. Destroys its contents.
///
/// Refuses a device that is in use, or that has a file system, LUKS, LVM, RAID, swap space, a
/// partition table, a store, or any non-zero bytes at its start. Names the reason. --force
/// overrides every reason except that the device is in use.
#[derive(clap::Args)]
pub struct Format {
    /// A block device, or a file used as one.
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Create DEVICE as a fully allocated file of this size, such as 4GiB. DEVICE must not exist.
    #[arg(long, value_name = "BYTES")]
    size: Option<String>,
    /// Slot size (the unit of allocation), a multiple of 4096. Default: 64KiB to 1MiB depending on
    /// the size of the device, more above 256GiB; with --meta up to 2112KiB.
    #[arg(long, value_name = "BYTES")]
    slot: Option<String>,
    /// Unit size. A unit is a group of slots that holds files of one lifetime class. Use the
    /// device's erase size or a multiple of it. Default: 16 slots.
    #[arg(long, value_name = "BYTES")]
    unit: Option<String>,
    /// Make this directory, absent or empty, the other half of a LevelDB-Raw store: the directory
    /// holds the manifest, the device holds WALs and SSTables. The store's path is then this
    /// directory. Slots are slightly larger than an SSTable of 2MiB, and a unit is one slot.
    #[arg(long, value_name = "DIR")]
    meta: Option<PathBuf>,
    /// Destroy existing contents.
    #[arg(long, alias = "destroy-data")]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Format {
    /// Formats the device and prints its geometry.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let [bytes, slot, unit] = [("--size", &self.size), ("--slot", &self.slot), ("--unit", &self.unit)]
            .map(|(name, text)| text.as_deref().map(parse_size).transpose().map_err(|why| Usage::of(name, why)));
        let (bytes, slot, unit) = (bytes?, slot?, unit?);
        let sizes = |device_bytes: u64| -> Result<Sizes> {
            let usual = if self.meta.is_some() { split::leveldb_sizes(device_bytes) } else { Sizes::of(device_bytes) };
            let slot = slot.unwrap_or(usual.slot_bytes.into());
            let slot_bytes = u32::try_from(slot).map_err(|_| Usage::of("--slot", "too large"))?;
            let unit = unit.unwrap_or(slot.saturating_mul(usual.unit_slots.into()));
            if slot == 0 || !unit.is_multiple_of(slot) {
                return Err(Usage::of("--unit", format!("{unit} bytes are no multiple of a slot's {slot}")));
            }
            Ok(Sizes {
                slot_bytes,
                unit_slots: u32::try_from(unit / slot).map_err(|_| Usage::of("--unit", "too large"))?,
            })
        };
        if let Some(meta) = &self.meta {
            split::check_empty(meta)?;
        }
        if let Some(bytes) = bytes {
            make_file(&self.device, bytes)?;
        }
        let prepared = prepare(&self.device, sizes, self.force);
        if bytes.is_some() && prepared.is_err() {
            let _ = fs::remove_file(&self.device); // just created; the original error matters more
        }
        let made = prepared?;
        if let Some(meta) = &self.meta {
            split::join(meta, &self.device)?;
        }
        if self.json {
            let sizes = made.sizes();
            let object = json!({ "device": self.device.display().to_string(), "bytes": made.device_bytes(),
                "slot_bytes": sizes.slot_bytes, "unit_bytes": sizes.unit_bytes(), "slots": made.slots() });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        let room = u64::from(made.slots()) * u64::from(made.sizes().slot_bytes);
        writeln!(
            out,
            "{} is ready for a store: {} slots of {}, {} in all",
            self.device.display(),
            made.slots(),
            size(made.sizes().slot_bytes.into()),
            size(room)
        )?;
        Ok(())
    }
}
