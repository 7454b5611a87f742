//! LevelDB's C interface on Terrace: a program written for `leveldb/c.h` compiles, links and runs.
//!
//! The interface is `include/leveldb/c.h`, which also lists the differences. `include/terrace/c.h`
//! adds presets, options by name, and durability. Each function is in the module of its object.
//!
//! # Safety
//! contract of the C side
//!
//! The headers require the following, which no function can check; `unsafe` code relies on it:
//! - A handle comes from the function that creates its kind, has not been destroyed, and is used
//!   by one thread at a time unless it is a database. Handles are therefore declared as references
//!   and boxes, which are plain pointers in C. A pointer that may be `NULL` is an `Option`.
//! - A pointer with a length refers to that many readable bytes, which do not change during the
//!   call.
//! - A name is zero-terminated.
//! - An `errptr` points to `NULL` or to a string from `malloc`.
//! - Callbacks behave as their comments require, and do not unwind.
//!
//! A panic in this library ends the process with its message; it never unwinds into C.
#![deny(unsafe_code)] // except where a module states the reason

mod batch;
mod comparator;
mod db;
mod error;
mod filter;
mod iterator;
mod machine;
mod manage;
mod memory;
mod options;
