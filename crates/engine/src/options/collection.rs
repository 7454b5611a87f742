//! The choice of a collector for the value log.

/// Who empties segments of the value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collection {
    /// Nobody: a segment goes when all of it is garbage.
    Off,
    /// Compactions, of those segments where it pays.
    #[default]
    Segments,
}

impl Collection {
    /// Every choice.
    pub const ALL: [Collection; 2] = [Collection::Off, Collection::Segments];

    /// As options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Collection::Off => "off",
            Collection::Segments => "segments",
        }
    }

    /// The choice spelled `name`.
    pub fn from_name(name: &str) -> Option<Collection> {
        Collection::ALL.into_iter().find(|choice| choice.name() == name)
    }
}
