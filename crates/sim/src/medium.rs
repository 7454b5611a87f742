//! The medium of a store in a crash test: a directory with the guarantees of some file system, a
//! raw device, or both.
use crate::{CrashDevice, CrashFs, DeviceImage, Image, Rules, together::Together};
use std::{fmt, sync::Arc};
use terrace_format::raw::Sizes;
use terrace_storage::backends::{
    files::fs::FileSystem,
    raw::{RawFs, format, split::SplitFs},
};

const DEVICE: &str = "(crash model of a device)";
const DEVICE_BYTES: u64 = 16 << 20;
/// Sizes of the raw device. The slots (allocation units) are small, so that small files fill
/// several of them.
const SIZES: Sizes = Sizes { slot_bytes: 32 << 10, unit_slots: 4 };

/// The kind of medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A directory.
    Directory(Rules),
    /// A raw device.
    Device,
    /// A directory for the manifest, with WALs and tables on a raw device.
    Split(Rules),
}

/// A medium that records its operations. Clones share the recording.
#[derive(Clone)]
pub enum Recorder {
    /// A directory.
    Directory(CrashFs),
    /// A device.
    Device(CrashDevice),
    /// A directory and a device.
    Split(CrashFs, Together),
}

/// A crash state: the contents of a medium after a power cut.
#[derive(Clone)]
pub enum Remains {
    /// The contents of a directory.
    Directory(Image),
    /// The contents of a device.
    Device(DeviceImage),
    /// The contents of a directory and of a device.
    Split(Image, DeviceImage),
}

impl Medium {
    /// Returns an empty medium of this kind.
    pub fn recorder(self) -> Recorder {
        match self {
            Medium::Directory(rules) => Recorder::Directory(CrashFs::new(rules)),
            Medium::Device => Recorder::Device(CrashDevice::new(&formatted())),
            Medium::Split(rules) => Recorder::split(CrashFs::new(rules), &formatted()),
        }
    }

    /// Returns a medium of this kind with the contents of `remains`.
    pub fn record(self, remains: &Remains) -> Recorder {
        match (self, remains) {
            (Medium::Directory(rules), Remains::Directory(image)) => {
                Recorder::Directory(CrashFs::from_image(image, rules))
            }
            (Medium::Split(rules), Remains::Split(image, device)) => {
                Recorder::split(CrashFs::from_image(image, rules), device)
            }
            (Medium::Device, Remains::Device(image)) => Recorder::Device(CrashDevice::new(image)),
            _ => panic!("the crash state is of another medium"),
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
        let together = Together { device: CrashDevice::new(device), fs: fs.clone(), when: Arc::default() };
        Recorder::Split(fs, together)
    }

    /// Returns the file system to write to.
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        match self {
            Recorder::Directory(fs) => Arc::new(fs.clone()),
            Recorder::Device(device) => RawFs::new(Arc::new(device.clone()), DEVICE),
            Recorder::Split(fs, device) => {
                Arc::new(SplitFs::new(Arc::new(fs.clone()), RawFs::new(Arc::new(device.clone()), DEVICE)))
            }
        }
    }

    /// Returns the number of recorded operations.
    pub fn steps(&self) -> usize {
        match self {
            Recorder::Directory(fs) => fs.steps(),
            Recorder::Device(device) => device.steps(),
            Recorder::Split(fs, device) => fs.steps() + device.device.steps(),
        }
    }

    /// Returns the state right after `step`. A killed process leaves it if no power cut follows.
    pub fn state_after(&self, step: usize) -> Remains {
        match self {
            Recorder::Directory(fs) => Remains::Directory(fs.state_after(step)),
            Recorder::Device(device) => Remains::Device(device.state_after(step)),
            Recorder::Split(fs, device) => {
                let on_device = device.steps_within(step);
                Remains::Split(fs.state_after(step - on_device), device.device.state_after(on_device))
            }
        }
    }

    /// Returns a crash state: the contents after a power cut right after `step`. `seed` selects one
    /// of the possible states.
    pub fn power_loss(&self, step: usize, seed: u64) -> Remains {
        match self {
            Recorder::Directory(fs) => Remains::Directory(fs.power_loss(step, seed)),
            Recorder::Device(device) => Remains::Device(device.power_loss(step, seed)),
            Recorder::Split(fs, device) => {
                let on_device = device.steps_within(step);
                Remains::Split(fs.power_loss(step - on_device, seed), device.device.power_loss(on_device, seed))
            }
        }
    }
}

impl Remains {
    /// Returns a new file system with these contents. It is writable, unlocked, and independent of
    /// all others.
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
