//! Options that choose between named behaviours of the engine.

/// Garbage collection of the value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcMode {
    /// No values are relocated: a segment is deleted once all of it is garbage.
    Off,
    /// Compactions relocate live values from the segments where that pays.
    #[default]
    Segments,
    /// WiscKey's garbage collection: live values of the oldest segments are re-appended, as if
    /// written by a user, whatever share of these segments is garbage.
    Tail,
}

impl GcMode {
    /// Every mode.
    pub const ALL: [GcMode; 3] = [GcMode::Segments, GcMode::Tail, GcMode::Off];

    /// Returns the name in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            GcMode::Off => "off",
            GcMode::Segments => "segments",
            GcMode::Tail => "tail",
        }
    }
}

/// Recovery from a WAL that is damaged below its durable watermark.
///
/// A torn tail, which a power cut explains, ends the history under either choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Fails the open with [`Error::Corrupt`](crate::Error::Corrupt), which names file, offset and
    /// loss.
    #[default]
    Refuse,
    /// Keeps every durable write that can be read, before and after the damage, and reports the
    /// loss. If a tombstone is lost, the older value of its key reappears.
    Salvage,
}

impl Recovery {
    /// Every choice.
    pub const ALL: [Recovery; 2] = [Recovery::Refuse, Recovery::Salvage];

    /// Returns the name in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::Refuse => "refuse",
            Recovery::Salvage => "salvage",
        }
    }
}

/// Order in which the SSTables of a level are compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionPri {
    /// The next SSTable in key order after the one compacted last, as in LevelDB.
    #[default]
    RoundRobin,
    /// The SSTable that overlaps the fewest bytes in the next level per byte of its own.
    MinOverlappingRatio,
}

impl CompactionPri {
    /// Every choice.
    pub const ALL: [CompactionPri; 2] = [CompactionPri::RoundRobin, CompactionPri::MinOverlappingRatio];

    /// Returns the name in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            CompactionPri::RoundRobin => "round_robin",
            CompactionPri::MinOverlappingRatio => "min_overlapping_ratio",
        }
    }
}

/// The compaction policy: the shape of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionStyle {
    /// One sorted run in each level below level 0, each ten times larger than the one above.
    #[default]
    Leveled,
    /// Sorted runs of any number and size; neighbouring runs of similar size are merged whole.
    Universal,
}

impl CompactionStyle {
    /// Every choice.
    pub const ALL: [CompactionStyle; 2] = [CompactionStyle::Leveled, CompactionStyle::Universal];

    /// Returns the name in the text form of options.
    pub fn name(self) -> &'static str {
        match self {
            CompactionStyle::Leveled => "leveled",
            CompactionStyle::Universal => "universal",
        }
    }
}
