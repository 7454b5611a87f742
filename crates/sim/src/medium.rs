//! What a store lies on when the power goes: a directory, by the rules of some file system, or a device without one.
use crate::{CrashDevice, CrashFs, DeviceImage, Image, Rules};
use std::{fmt, sync::Arc};
use terrace_format::raw::Sizes;
use terrace_storage::backends::{
    files::fs::FileSystem,
    raw::{RawFs, format},
};

const DEVICE_BYTES: u64 = 16 << 20;
/// Small slots, so that small files fill several.
const SIZES: Sizes = Sizes { slot_bytes: 32 << 10, unit_slots: 4 };

/// Where a history is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A directory.
    Directory(Rules),
    /// A device that holds a store without a file system.
    Device,
}

/// A recording medium. Clones are handles on the same one.
#[derive(Clone)]
pub enum Recorder {
    /// A directory.
    Directory(CrashFs),
    /// A device.
    Device(CrashDevice),
}

/// What a power cut left.
#[derive(Clone)]
pub enum Remains {
    /// Of a directory.
    Directory(Image),
    /// Of a device.
    Device(DeviceImage),
}

impl Medium {
    /// One with nothing on it.
    pub fn recorder(self) -> Recorder {
        match self {
            Medium::Directory(rules) => Recorder::Directory(CrashFs::new(rules)),
            Medium::Device => {
                let device = CrashDevice::new(&DeviceImage::empty(DEVICE_BYTES));
                format(&device, SIZES, 1).expect("a device in memory takes what it is given");
                Recorder::Device(CrashDevice::new(&device.now()))
            }
        }
    }

    /// One that holds `remains` of its own kind.
    pub fn record(self, remains: &Remains) -> Recorder {
        match (self, remains) {
            (Medium::Directory(rules), Remains::Directory(image)) => {
                Recorder::Directory(CrashFs::from_image(image, rules))
            }
            (_, Remains::Device(image)) => Recorder::Device(CrashDevice::new(image)),
            (Medium::Device, Remains::Directory(_)) => panic!("what is left of a directory is no device"),
        }
    }
}

impl Recorder {
    /// The directory to write to.
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        match self {
            Recorder::Directory(fs) => Arc::new(fs.clone()),
            Recorder::Device(device) => RawFs::new(Arc::new(device.clone()), "(crash model of a device)"),
        }
    }

    /// How many operations were recorded.
    pub fn steps(&self) -> usize {
        match self {
            Recorder::Directory(fs) => fs.steps(),
            Recorder::Device(device) => device.steps(),
        }
    }

    /// One of the states that a power cut right after `step` may leave; which one, `seed` decides.
    pub fn power_loss(&self, step: usize, seed: u64) -> Remains {
        match self {
            Recorder::Directory(fs) => Remains::Directory(fs.power_loss(step, seed)),
            Recorder::Device(device) => Remains::Device(device.power_loss(step, seed)),
        }
    }
}

impl Remains {
    /// A fresh directory that holds them: writable, unlocked, and independent of all others.
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        match self {
            Remains::Directory(image) => image.file_system(),
            Remains::Device(image) => Recorder::Device(CrashDevice::new(image)).file_system(),
        }
    }
}

impl fmt::Debug for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remains::Directory(image) => image.fmt(f),
            Remains::Device(image) => image.fmt(f),
        }
    }
}
