//! The campaign on an emulated machine that is killed while it fills a store. So a kernel that really stopped is part of it.
use super::{
    Campaign, Tally,
    block::{Record, mount_options},
    emulator::{DISK, Emulator, MOUNT_POINT, Packed, last_words, nameless},
    ground,
    lives::{self, Home, Started},
    size::Size,
    station::Worker,
    worker::Place,
};
use anyhow::Result;
use std::{ops::Range, process::Command, sync::Arc};
use terrace_device::{BlockDevice, File as FileDevice, Memory, serve::Served};

/// Runs a campaign: a state is a machine that was killed. `worker` is as in [`block::run`](super::block::run); it becomes the
/// machine's only process. `watch` sees the tally grow, and says false to stop.
///
/// # Errors
/// Something is missing, or a machine does not come up; a broken contract is a result, no error.
pub fn run(
    campaign: &Campaign,
    emulator: &Emulator,
    worker: &Command,
    watch: &mut dyn FnMut(&Tally) -> bool,
) -> Result<Tally> {
    let packed = emulator.pack(worker, &campaign.work)?;
    lives::run(campaign, &Machine { campaign, emulator, packed }, watch)
}

struct Machine<'a> {
    campaign: &'a Campaign,
    emulator: &'a Emulator,
    packed: Packed,
}

impl Home for Machine<'_> {
    fn size(&self) -> Size {
        Size::Small
    }

    /// ext4 commits once a second.
    fn life_ms(&self) -> Range<usize> {
        400..7000
    }

    /// With an empty file system.
    fn new_disk(&self) -> Result<Arc<dyn BlockDevice>> {
        let image = Record::in_new_directory(&self.campaign.work)?;
        let bytes = self.size().device_bytes();
        let file = FileDevice::create(image.path(), bytes)?;
        ground::make_file_system(image.path())?;
        let disk = Memory::new(bytes)?;
        lives::imprint(&file, &disk)?;
        Ok(Arc::new(disk))
    }

    fn start(&self, disk: &Served) -> Result<Started> {
        let console = nameless(&self.campaign.work)?;
        let worker = Worker::start(self.emulator.command(&self.packed, disk.node(), &console))?;
        let options = mount_options(self.campaign.control).into();
        let engine = self.campaign.engine.clone();
        let place = Place { image: DISK.into(), mount_point: MOUNT_POINT.into(), engine, options };
        Ok(Started { worker, place, last_words: Box::new(move || last_words(&console)) })
    }
}
