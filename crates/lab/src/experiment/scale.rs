//! Reduces an experiment from the paper's size to a size that this machine can run. The table
//! `[scale]` determines which sizes shrink, and this module determines their minimums.
use super::{
    size::Size,
    tables::{Device, Load, Terms},
};
use serde::Deserialize;

/// The table `[scale]`: the default factor, and the sizes to which the factor applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The default factor. 1 is the paper's own size.
    pub default: f64,
    /// The sizes that shrink. All other sizes have the paper's values.
    pub with: Vec<Shrinks>,
}

/// A size that can shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shrinks {
    /// The fields `num` or `bytes`, `reads` and `writes` of the load.
    Load,
    /// Size of the device.
    Device,
    /// Size of memtables.
    WriteBufferSize,
    /// Size of SSTables.
    MaxFileSize,
    /// Size limit of level 1, which determines the sizes of the further levels.
    LevelBase,
    /// Size of the block cache.
    CacheSize,
}

/// Minimum size in bytes that engines accept for memtables, SSTables and level 1.
const SHAPE_MIN: u64 = 64 << 10;
/// Minimum number of keys in a load. The results of a smaller load would be meaningless.
const KEYS_MIN: u64 = 100;
/// Minimum size of the device in bytes. It has room for several superblocks of flash.
const DEVICE_MIN: u64 = 64 << 20;
/// Unit of device sizes in bytes. Every device size is a multiple of it.
const DEVICE_UNIT: u64 = 1 << 20;

impl Scale {
    /// Multiplies the sizes in `load`, `terms` and `device` by the factor `by`. Returns a note for
    /// each size that reached its minimum.
    pub fn apply(&self, by: f64, load: &mut Load, terms: &mut Terms, device: &mut Device) -> Vec<String> {
        let mut stopped = Vec::new();
        let mut shrink = |what: &str, size: &mut u64, least: u64| {
            let wanted = (*size as f64 * by).round() as u64;
            let least = least.min(*size);
            if wanted < least {
                stopped.push(format!("{what} would be {wanted} at this scale and is {least}"));
            }
            *size = wanted.max(least);
        };
        for what in &self.with {
            match what {
                Shrinks::Load => {
                    load.num.iter_mut().for_each(|num| shrink("load.num", num, KEYS_MIN));
                    let pair = load.key_size as u64 + load.value_size.0;
                    load.bytes.iter_mut().for_each(|Size(bytes)| shrink("load.bytes", bytes, KEYS_MIN * pair));
                    load.reads.iter_mut().for_each(|reads| shrink("load.reads", reads, KEYS_MIN));
                    load.writes.iter_mut().for_each(|writes| shrink("load.writes", writes, KEYS_MIN));
                }
                Shrinks::Device => {
                    let least = DEVICE_MIN.max(device.file_system.bytes_min());
                    if let Some(Size(size)) = &mut device.size {
                        shrink("device.size", size, least);
                        *size = size.next_multiple_of(DEVICE_UNIT);
                    }
                }
                Shrinks::WriteBufferSize => {
                    shrink("terms.write_buffer_size", &mut terms.write_buffer_size.0, SHAPE_MIN);
                }
                Shrinks::MaxFileSize => shrink("terms.max_file_size", &mut terms.max_file_size.0, SHAPE_MIN),
                Shrinks::LevelBase => shrink("terms.level_base", &mut terms.level_base.0, SHAPE_MIN),
                Shrinks::CacheSize => shrink("terms.cache_size", &mut terms.cache_size.0, 0),
            }
        }
        stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that a drive has a size in whole MiB after scaling. Raw devices accept only whole
    /// blocks, and file systems do not accept an odd number of sectors.
    #[test]
    fn a_scaled_drive_is_of_whole_mebibytes() {
        let scale: Scale = toml::from_str("default = 0.05\nwith = ['device']").expect("a scale");
        for by in [1.0, 0.05, 0.0371, 1e-9] {
            let mut device: Device = toml::from_str("kind = 'loop'\nsize = '12GiB'").expect("a device");
            scale.apply(by, &mut Load::default(), &mut Terms::default(), &mut device);
            let size = device.size.expect("given").0;
            let wanted = (12u64 << 30) as f64 * by;
            let rounded = (wanted..wanted + DEVICE_UNIT as f64).contains(&(size as f64));
            assert!(
                size.is_multiple_of(DEVICE_UNIT) && (rounded || size == DEVICE_MIN.max(device.file_system.bytes_min())),
                "{by}: {size}"
            );
        }
    }
}
