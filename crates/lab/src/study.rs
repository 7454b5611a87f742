//! Studies. A study runs experiments, judges their expectations, and shows the results. Each
//! experiment has its own file.
//!
//! | module | contents |
//! |---|---|
//! | `lock` | a lock that permits one study at a time per machine |
//! | `folder` | the files of a run |
//! | `run` | the order of experiments and cells |
//! | `findings` | figures by engine, row and point |
//! | `verdict` | verdicts on expectations, and comparisons with papers |
//! | `page` | output formats |
pub mod findings;
pub mod folder;
pub mod lock;
pub mod page;
pub mod run;
pub mod verdict;
