//! The choice of what an open does with durable writes that cannot be read.

/// What an open does where a WAL is damaged below its highest durable mark. A torn tail, which a power cut
/// explains, ends the history under either choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Refuses the store with [`Error::Corrupt`](crate::Error::Corrupt), which names file, offset and loss.
    #[default]
    Refuse,
    /// Keeps every durable write that can be read, before and after the damage, and reports what is lost. Where a
    /// delete is lost, the older value is back.
    Salvage,
}

impl Recovery {
    /// Every choice.
    pub const ALL: [Recovery; 2] = [Recovery::Refuse, Recovery::Salvage];

    /// As options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::Refuse => "refuse",
            Recovery::Salvage => "salvage",
        }
    }

    /// The choice spelled `name`.
    pub fn from_name(name: &str) -> Option<Recovery> {
        Recovery::ALL.into_iter().find(|choice| choice.name() == name)
    }
}
