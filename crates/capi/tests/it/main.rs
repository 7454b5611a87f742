//! Tests of the C interface: headers, exported symbols, and compiled programs.
mod extra;
mod header;
mod kit;
mod programs;
