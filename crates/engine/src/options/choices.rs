//! Options that choose between named behaviours of the engine.

/// The method of garbage collection (GC) in the value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcMode {
    /// GC moves no values. A segment (a file of the value log) is deleted when all values in it are
    /// garbage.
    Off,
    /// Compactions relocate live values out of the segments whose removal frees most space for its
    /// cost.
    #[default]
    Segments,
    /// WiscKey's garbage collection: GC re-appends the live values of the oldest segments, as if a
    /// user wrote them. GC always takes the oldest segments, even those with little garbage.
    Tail,
}

impl GcMode {
    /// Every GC mode.
    pub const ALL: [GcMode; 3] = [GcMode::Segments, GcMode::Tail, GcMode::Off];

    /// Returns the name of the mode in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            GcMode::Off => "off",
            GcMode::Segments => "segments",
            GcMode::Tail => "tail",
        }
    }
}

/// The reaction of recovery to a WAL that is damaged below its durable watermark, that is, in
/// writes that were synced.
///
/// A torn tail is not such damage. A power cut explains a torn tail, and with both choices the
/// history ends before the torn tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// The open fails with [`Error::Corrupt`](crate::Error::Corrupt), which contains the file, the
    /// offset and the loss.
    #[default]
    Refuse,
    /// The open recovers every durable write that can be read, before and after the damage, and
    /// reports the loss. If a tombstone is lost, an older value of its key becomes visible again.
    Salvage,
}

impl Recovery {
    /// Every way of handling a damaged WAL.
    pub const ALL: [Recovery; 2] = [Recovery::Refuse, Recovery::Salvage];

    /// Returns the name of the choice in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::Refuse => "refuse",
            Recovery::Salvage => "salvage",
        }
    }
}

/// The order in which the SSTables of a level are compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionPri {
    /// Compacts the SSTable that follows the last compacted one in key order, as in LevelDB.
    #[default]
    RoundRobin,
    /// Compacts the SSTable with the lowest ratio of the bytes that it overlaps in the next level
    /// to its own bytes.
    MinOverlappingRatio,
}

impl CompactionPri {
    /// Every compaction order.
    pub const ALL: [CompactionPri; 2] = [CompactionPri::RoundRobin, CompactionPri::MinOverlappingRatio];

    /// Returns the name of the order in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            CompactionPri::RoundRobin => "round_robin",
            CompactionPri::MinOverlappingRatio => "min_overlapping_ratio",
        }
    }
}

/// The compaction policy, which determines the shape of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionStyle {
    /// Leveled compaction: one sorted run in each level below level 0. Each level may be ten times
    /// larger than the level above.
    #[default]
    Leveled,
    /// Universal compaction: the store has sorted runs of any number and size, and neighbouring
    /// runs of similar size are merged whole.
    Universal,
}

impl CompactionStyle {
    /// Every compaction policy.
    pub const ALL: [CompactionStyle; 2] = [CompactionStyle::Leveled, CompactionStyle::Universal];

    /// Returns the name of the policy in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            CompactionStyle::Leveled => "leveled",
            CompactionStyle::Universal => "universal",
        }
    }
}
