//! Damage that an open met and survived.

/// Something in a WAL that is no part of the history: a torn tail, or what [`Recovery::Salvage`](crate::Recovery)
/// skipped. A copy of the file is kept under `lost/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
}
