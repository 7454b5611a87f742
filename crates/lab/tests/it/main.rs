//! Integration tests of the lab: the benchmark driver, the ledger, cells and crash-test campaigns.
mod cell;
mod common;
mod crash;
mod driver;
mod ledger;
mod raw_ssd;
mod sameness;
mod shares;
mod watch;
