//! Profiles as texts: those that come with the program, and those that users write.
use super::profile::Profile;
use crate::{Error, Result};

/// Name and text of each profile that comes with the program.
const KNOWN: [(&str, &str); 3] = [
    ("plain", include_str!("../../profiles/plain.toml")),
    ("ssd-s", include_str!("../../profiles/ssd-s.toml")),
    ("ssd-i", include_str!("../../profiles/ssd-i.toml")),
];

impl Profile {
    /// The names of the profiles that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// The text of a profile that comes with the program, to start one's own from.
    pub fn text(name: &str) -> Option<&'static str> {
        KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// A profile that comes with the program.
    pub fn named(name: &str) -> Option<Profile> {
        Profile::text(name).map(|text| Profile::parse(text, name).expect("a test parses each"))
    }

    /// A profile from TOML, or from JSON if it begins with a brace. `what` is what messages call the text. Whether such a
    /// drive can exist is another question: [`validate`](Profile::validate).
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
