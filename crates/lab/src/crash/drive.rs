//! The campaign on a drive that loses its power under load: a store of tens of MiB is written, read and compacted by several threads, as
//! fast as the record of it fits into memory, with timers as users have them.
use super::{
    Campaign, Control, Tally,
    lives::{self, Home, Started},
    size::Size,
    station::Worker,
    worker::Place,
};
use anyhow::Result;
use std::{ops::Range, process::Command};
use terrace_device::serve::Served;

/// Runs a campaign: a state is what a drive has left. `worker` and `watch` are as in [`block::run`](super::block::run).
///
/// # Errors
/// Something is missing, or a store cannot be filled; a broken contract is a result, no error.
pub fn run(campaign: &Campaign, worker: &dyn Fn() -> Command, watch: &mut dyn FnMut(&Tally) -> bool) -> Result<Tally> {
    lives::run(campaign, &Drive { campaign, worker }, watch)
}

struct Drive<'a> {
    campaign: &'a Campaign,
    worker: &'a dyn Fn() -> Command,
}

impl Home for Drive<'_> {
    fn size(&self) -> Size {
        Size::Large
    }

    fn life_ms(&self) -> Range<usize> {
        1000..15_000
    }

    fn start(&self, disk: &Served) -> Result<Started> {
        let options = if self.campaign.control == Some(Control::NoBarrier) { "barrier=0" } else { "" };
        let (image, mount_point, engine) = (disk.node().into(), disk.mount_point(), self.campaign.engine.clone());
        let place = Place { image, mount_point, engine, options: options.into() };
        let words = || "it has no console".into();
        Ok(Started { worker: Worker::start((self.worker)())?, place, last_words: Box::new(words) })
    }
}
