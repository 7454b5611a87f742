//! What a store lies on when the power goes: a directory, by the rules of some file system, a device without one, or both.
use crate::{CrashDevice, CrashFs, DeviceImage, Image, Rules, together::Together};
use std::{fmt, sync::Arc};
use terrace_format::raw::Sizes;
use terrace_storage::backends::{
    files::fs::FileSystem,
    raw::{RawFs, format, split::SplitFs},
};

const DEVICE: &str = "(crash model of a device)";
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
    /// A directory, with logs and tables on such a device.
    Split(Rules),
}

/// A recording medium. Clones are handles on the same one.
#[derive(Clone)]
pub enum Recorder {
    /// A directory.
    Directory(CrashFs),
    /// A device.
    Device(CrashDevice),
    /// Both.
    Split(CrashFs, Together),
}

/// What a power cut left.
#[derive(Clone)]
pub enum Remains {
    /// Of a directory.
    Directory(Image),
    /// Of a device.
    Device(DeviceImage),
    /// Of both.
    Split(Image, DeviceImage),
}

impl Medium {
    /// One with nothing on it.
    pub fn recorder(self) -> Recorder {
        match self {
            Medium::Directory(rules) => Recorder::Directory(CrashFs::new(rules)),
            Medium::Device => Recorder::Device(CrashDevice::new(&formatted())),
            Medium::Split(rules) => Recorder::split(CrashFs::new(rules), &formatted()),
        }
    }

    /// One that holds `remains` of its own kind.
    pub fn record(self, remains: &Remains) -> Recorder {
        match (self, remains) {
            (Medium::Directory(rules), Remains::Directory(image)) => {
                Recorder::Directory(CrashFs::from_image(image, rules))
            }
            (Medium::Split(rules), Remains::Split(image, device)) => {
                Recorder::split(CrashFs::from_image(image, rules), device)
            }
            (Medium::Device, Remains::Device(image)) => Recorder::Device(CrashDevice::new(image)),
            _ => panic!("what is left is of another kind"),
        }
    }
}

fn formatted() -> DeviceImage {
    let device = CrashDevice::new(&DeviceImage::empty(DEVICE_BYTES));
    format(&device, SIZES, 1).expect("a device in memory takes what it is given");
    device.now()
}

impl Recorder {
    fn split(fs: CrashFs, device: &DeviceImage) -> Recorder {
        let together = Together { below: CrashDevice::new(device), beside: fs.clone(), when: Arc::default() };
        Recorder::Split(fs, together)
    }

    /// The directory to write to.
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        match self {
            Recorder::Directory(fs) => Arc::new(fs.clone()),
            Recorder::Device(device) => RawFs::new(Arc::new(device.clone()), DEVICE),
            Recorder::Split(fs, device) => {
                Arc::new(SplitFs::new(Arc::new(fs.clone()), RawFs::new(Arc::new(device.clone()), DEVICE)))
            }
        }
    }

    /// How many operations were recorded.
    pub fn steps(&self) -> usize {
        match self {
            Recorder::Directory(fs) => fs.steps(),
            Recorder::Device(device) => device.steps(),
            Recorder::Split(fs, device) => fs.steps() + device.below.steps(),
        }
    }

    /// The state right after `step`, as a killed process leaves it.
    pub fn everything(&self, step: usize) -> Remains {
        match self {
            Recorder::Directory(fs) => Remains::Directory(fs.everything(step)),
            Recorder::Device(device) => Remains::Device(device.everything(step)),
            Recorder::Split(fs, device) => {
                let on_device = device.steps_within(step);
                Remains::Split(fs.everything(step - on_device), device.below.everything(on_device))
            }
        }
    }

    /// One of the states that a power cut right after `step` may leave; which one, `seed` decides.
    pub fn power_loss(&self, step: usize, seed: u64) -> Remains {
        match self {
            Recorder::Directory(fs) => Remains::Directory(fs.power_loss(step, seed)),
            Recorder::Device(device) => Remains::Device(device.power_loss(step, seed)),
            Recorder::Split(fs, device) => {
                let on_device = device.steps_within(step);
                Remains::Split(fs.power_loss(step - on_device, seed), device.below.power_loss(on_device, seed))
            }
        }
    }
}

impl Remains {
    /// A fresh directory that holds them: writable, unlocked, and independent of all others.
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        match self {
            Remains::Directory(image) => image.file_system(),
            Remains::Device(image) => Recorder::Device(CrashDevice::new(image)).file_system(),
            Remains::Split(image, device) => {
                let device = RawFs::new(Arc::new(CrashDevice::new(device)), DEVICE);
                Arc::new(SplitFs::new(image.file_system(), device))
            }
        }
    }
}

impl fmt::Debug for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remains::Directory(image) => image.fmt(f),
            Remains::Device(image) => image.fmt(f),
            Remains::Split(image, device) => write!(f, "{image:?}, and {device:?}"),
        }
    }
}
