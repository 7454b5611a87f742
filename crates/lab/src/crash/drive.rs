//! The crash-test campaign on a drive that loses power under load. Several threads write, read and
//! compact a store of tens of MiB. The store cannot be larger and the load cannot be higher,
//! because the campaign keeps a record of all requests to the drive in memory. The engine's timers
//! have their production values, while other campaigns shorten them.
use super::{
    Campaign, NegativeControl, Tally,
    power_cycles::{self, PowerCutHost, StartedHost},
    size::Size,
    station::Worker,
    worker::StoreLocation,
};
use anyhow::Result;
use std::{ops::Range, process::Command};
use terrace_device::serve::Served;

/// Runs a campaign. A crash state is the content of a drive after a power cut. `worker` returns
/// the command of a worker process. `watch` receives the tally after each crash state, and returns
/// false to stop the campaign.
///
/// # Errors
/// This machine lacks a requirement, or a store cannot be filled. A crash state that violates the
/// durability contract is counted in the tally and is not an error.
pub fn run(campaign: &Campaign, worker: &dyn Fn() -> Command, watch: &mut dyn FnMut(&Tally) -> bool) -> Result<Tally> {
    power_cycles::run(campaign, &Drive { campaign, worker }, watch)
}

struct Drive<'a> {
    campaign: &'a Campaign,
    worker: &'a dyn Fn() -> Command,
}

impl PowerCutHost for Drive<'_> {
    fn size(&self) -> Size {
        Size::Large
    }

    fn life_ms(&self) -> Range<usize> {
        1000..15_000
    }

    fn start(&self, disk: &Served) -> Result<StartedHost> {
        let options = if self.campaign.control == Some(NegativeControl::NoBarrier) { "barrier=0" } else { "" };
        let (image, mount_point, engine) = (disk.node().into(), disk.mount_point(), self.campaign.engine.clone());
        let place = StoreLocation { image, mount_point, engine, options: options.into() };
        let last_output = || "it has no console".into();
        Ok(StartedHost { worker: Worker::start((self.worker)())?, place, last_output: Box::new(last_output) })
    }
}
