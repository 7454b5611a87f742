//! The choice of a collector for the value log.

/// Who empties segments of the value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcMode {
    /// Nobody: a segment goes when all of it is garbage.
    Off,
    /// Compactions, of those segments where it pays.
    #[default]
    Segments,
    /// WiscKey's collector, of the oldest segments, whatever is in them: what is alive there is put again, as if by a user.
    Tail,
}

impl GcMode {
    /// Every choice.
    pub const ALL: [GcMode; 3] = [GcMode::Off, GcMode::Segments, GcMode::Tail];

    /// As options spell it.
    pub fn name(self) -> &'static str {
        match self {
            GcMode::Off => "off",
            GcMode::Segments => "segments",
            GcMode::Tail => "tail",
        }
    }

    /// The choice spelled `name`.
    pub fn from_name(name: &str) -> Option<GcMode> {
        GcMode::ALL.into_iter().find(|choice| choice.name() == name)
    }
}
