//! The text form of the profiles of virtual SSDs: the built-in profiles, and the parsing of the
//! user's own.
use super::profile::Profile;
use crate::{Error, Result};

/// Name and text of each built-in profile.
const KNOWN: [(&str, &str); 3] = [
    ("plain", include_str!("../../profiles/plain.toml")),
    ("ssd-s", include_str!("../../profiles/ssd-s.toml")),
    ("ssd-i", include_str!("../../profiles/ssd-i.toml")),
];

impl Profile {
    /// Returns the names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// Returns the text of a built-in profile, as a starting point for a new one.
    pub fn text(name: &str) -> Option<&'static str> {
        KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Returns a built-in profile.
    pub fn named(name: &str) -> Option<Profile> {
        Profile::text(name).map(|text| Profile::parse(text, name).expect("a test parses each"))
    }

    /// Parses a profile from TOML, or from JSON if it begins with a brace. `what` names the text in
    /// messages. Does not check that a drive with this profile can exist: see
    /// [`validate`](Profile::validate).
    ///
    /// # Errors
    /// [`Error::Malformed`] names the line and the field.
    pub fn parse(text: &str, what: &str) -> Result<Profile> {
        let parsed = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| error.to_string())
        } else {
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
        };
        parsed.map_err(|why| Error::Malformed { what: what.to_owned(), why })
    }
}
