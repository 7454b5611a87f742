//! The memory of a store: one budget, and the caches and pools that it pays for.
mod block_cache;
mod budget;
mod buffer_pool;
mod page_pool;
mod pooled_pages;

pub use budget::{Budget, Held, Holder};
#[cfg(test)]
pub(crate) use buffer_pool::POOLED_MAX;
pub use pooled_pages::PooledPages;
