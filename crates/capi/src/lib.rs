//! LevelDB's C interface on Terrace: a program written for `leveldb/c.h` compiles, links and runs.
//!
//! The header `include/leveldb/c.h` declares the interface and lists the differences from
//! LevelDB. The header `include/terrace/c.h` adds presets and options by name, durability,
//! stores in memory, a logger, and functions that the bindings in `bindings/cpp` and
//! `bindings/go` need. Each module of this crate has the functions of one kind of handle.
//!
//! # Safety contract of the C side
//!
//! The headers require the following from C programs. The functions cannot check these
//! requirements, and their `unsafe` code relies on them:
//! - A handle is from the function that creates its kind, and has not been destroyed. Only one
//!   thread at a time uses a handle, except that several threads may use a `leveldb_t`, a column
//!   family or a transaction. Therefore the functions declare handles as references and boxes,
//!   which are plain pointers in C. A pointer that may be `NULL` is an `Option`.
//! - A pointer with a length refers to that many readable bytes, which do not change during the
//!   call.
//! - A name is zero-terminated.
//! - An `errptr` points to `NULL` or to a string from `malloc`.
//! - Callbacks behave as the comments in the headers require, and do not unwind.
//!
//! A panic in this library ends the process with the panic's message. It never unwinds into C.
#![deny(unsafe_code)] // except where a module states the reason

mod batch;
mod comparator;
mod db;
mod env;
mod error;
mod extra;
mod filter;
mod iterator;
mod logger;
mod machine;
mod manage;
mod memory;
mod options;
mod refusal;
