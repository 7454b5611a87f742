//! The memory of a store: one memory budget, and the caches and pools whose memory it counts.
mod block_cache;
mod budget;
mod buffer_pool;
mod page_pool;
mod pooled_pages;
mod residency;
mod sampling;

pub use budget::{Budget, Held, Holder};
#[cfg(test)]
pub(crate) use buffer_pool::POOLED_MAX;
pub use pooled_pages::PooledPages;
pub(crate) use residency::Residency;
pub use sampling::{SAMPLE_EVERY, is_sample};
