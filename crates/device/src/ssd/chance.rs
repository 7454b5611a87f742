//! The random-number generator of a virtual SSD (splitmix64). It is deterministic, so equal seeds
//! give equal random choices.

/// A seeded generator whose whole state is one number ([`Chance::state`]).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the state, from which [`new`](Self::new) continues.
    pub fn state(&self) -> u64 {
        self.0
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns a uniform random number below `end`. The bias is below `end` / 2^64.
    pub fn below(&mut self, end: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u32
    }
}
