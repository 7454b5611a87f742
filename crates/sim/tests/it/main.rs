//! The models of what can go wrong, and what stores make of them.
mod builds;
mod contract;
mod crash;
mod faults;
mod journal;
mod late;
mod placement;
mod raw;
mod scramble;
