//! Terrace behind the declarations of LevelDB's `leveldb/c.h`: a program written for LevelDB compiles, links and runs.
//!
//! The interface is `include/leveldb/c.h`, which also says what differs; `include/terrace/c.h` adds how to choose presets
//! and options. Each function of those headers stands here, in the file of its noun.
//!
//! # What C promises, and so what `unsafe` rests on
//! The headers ask for these things, and no function can check them:
//! - a handle came from the function that makes its kind, has not been destroyed, and is used by one thread at a time
//!   unless it is a database. So handles are declared as references and boxes, which are plain pointers to C. What may be
//!   `NULL` is an `Option`;
//! - where a pointer and a length come together, that many bytes may be read, and nobody changes them during the call;
//! - a name ends in a zero byte;
//! - an `errptr` leads to `NULL` or to text from `malloc`;
//! - functions passed in do what their comments ask, and do not unwind.
//!
//! A panic in here ends the process with its message; it never crosses into C.
#![deny(unsafe_code)] // but for what the modules say they need it for

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
