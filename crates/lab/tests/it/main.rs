//! Integration tests of the lab: drivers, ledgers, cells, campaigns.
mod cell;
mod common;
mod crash;
mod driver;
mod ledger;
mod raw_ssd;
mod sameness;
mod shares;
mod watch;
