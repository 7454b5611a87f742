//! Experiments carried out, judged and shown.
//!
//! | module | question |
//! |---|---|
//! | `lock` | does another study measure on this machine? |
//! | `folder` | what is kept of a run, and where? |
//! | `run` | which cell of which experiment when? |
//! | `findings` | what came out, by engine, row and point? |
//! | `verdict` | what should have come out, and what did the paper have? |
//! | `page` | how is it shown? |
pub mod findings;
pub mod folder;
pub mod lock;
pub mod page;
pub mod run;
pub mod verdict;
