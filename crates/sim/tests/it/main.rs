//! Tests of the simulated power cuts and of fault injection, and tests that run the storage crate
//! on them.
mod builds;
mod contract;
mod crash;
mod faults;
mod journal;
mod late;
mod placement;
mod raw;
mod scramble;
