//! The block devices, the virtual drive and its node, from outside.
mod ftl_model;
mod node;
mod record;
mod serve;
mod smart;
mod ssd_device;
mod ssd_state;
mod ssd_theory;
mod ssd_time;
