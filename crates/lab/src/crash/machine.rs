//! The crash-test campaign on an emulated machine. The machine is killed while it fills a store,
//! so a real kernel stops in the middle of its work.
use super::{
    Campaign, Tally,
    block::{Record, mount_options},
    emulator::{DISK, Emulator, GuestImage, MOUNT_POINT, last_console_lines, unnamed_file},
    medium,
    power_cycles::{self, PowerCutHost, StartedHost},
    size::Size,
    station::Worker,
    worker::StoreLocation,
};
use anyhow::Result;
use std::{ops::Range, process::Command, sync::Arc};
use terrace_device::{BlockDevice, File as FileDevice, Memory, serve::Served};

/// Runs a campaign. A crash state is the disk content of a machine that was killed. `worker` is
/// the command of a worker process, which becomes the machine's only process. `watch` receives the
/// tally after each crash state, and returns false to stop the campaign.
///
/// # Errors
/// This host lacks a requirement, or a machine does not boot. A crash state that violates the
/// durability contract is counted in the tally and is not an error.
pub fn run(
    campaign: &Campaign,
    emulator: &Emulator,
    worker: &Command,
    watch: &mut dyn FnMut(&Tally) -> bool,
) -> Result<Tally> {
    let packed = emulator.pack(worker, &campaign.work)?;
    power_cycles::run(campaign, &Machine { campaign, emulator, packed }, watch)
}

struct Machine<'a> {
    campaign: &'a Campaign,
    emulator: &'a Emulator,
    packed: GuestImage,
}

impl PowerCutHost for Machine<'_> {
    fn size(&self) -> Size {
        Size::Small
    }

    /// Returns the range of times, in ms, after which the machine is killed. The range covers
    /// several seconds, so that ext4, which here commits its journal once a second, makes several
    /// commits before the kill.
    fn life_ms(&self) -> Range<usize> {
        400..7000
    }

    /// Returns a disk with an empty file system. The host creates the file system, because the
    /// emulated machine has no `mkfs`.
    fn new_disk(&self) -> Result<Arc<dyn BlockDevice>> {
        let image = Record::in_new_directory(&self.campaign.work)?;
        let bytes = self.size().device_bytes();
        let file = FileDevice::create(image.path(), bytes)?;
        medium::make_file_system(image.path())?;
        let disk = Memory::new(bytes)?;
        power_cycles::copy_nonzero(&file, &disk)?;
        Ok(Arc::new(disk))
    }

    fn start(&self, disk: &Served) -> Result<StartedHost> {
        let console = unnamed_file(&self.campaign.work)?;
        let worker = Worker::start(self.emulator.command(&self.packed, disk.node(), &console))?;
        let options = mount_options(self.campaign.control).into();
        let engine = self.campaign.engine.clone();
        let place = StoreLocation { image: DISK.into(), mount_point: MOUNT_POINT.into(), engine, options };
        Ok(StartedHost { worker, place, last_output: Box::new(move || last_console_lines(&console)) })
    }
}
