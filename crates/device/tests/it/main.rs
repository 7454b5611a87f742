//! Tests of block devices, the virtual SSD, and served devices, through their public interfaces.
mod ftl_model;
mod node;
mod record;
mod serve;
mod smart;
mod ssd_device;
mod ssd_state;
mod ssd_theory;
mod ssd_time;
