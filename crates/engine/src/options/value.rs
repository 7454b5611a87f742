//! The text form of option values: numbers with a unit, switches, and named choices.
use super::{CompactionPri, CompactionStyle, GcMode, Recovery};
use terrace_format::{TableForm, Values, compress::Codec};
use terrace_storage::{DurabilityMode, FilterForm, WalWriteMode};

/// The text form of an option that is not set (`None`). In a new store the preset decides the
/// value of this option, in an existing store the format file.
const PRESET: &str = "preset";

/// A type of option values.
pub(super) trait OptionValue: Sized {
    /// Parses the text form. An error describes the expected form.
    fn parse(text: &str) -> Result<Self, String>;
    /// Returns the text form, which [`parse`](OptionValue::parse) reads.
    fn text(&self) -> String;
}

impl OptionValue for bool {
    fn parse(text: &str) -> Result<bool, String> {
        match text {
            "true" | "on" | "yes" => Ok(true),
            "false" | "off" | "no" => Ok(false),
            _ => Err("expected true (on, yes) or false (off, no)".into()),
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for u64 {
    fn parse(text: &str) -> Result<u64, String> {
        parse_number(text)
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for i64 {
    fn parse(text: &str) -> Result<i64, String> {
        parse_number(text)
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// A type of option values with a fixed set of named values.
trait Choice: Copy + PartialEq + 'static {
    /// Returns each value with its name.
    fn choices() -> Vec<(&'static str, Self)>;
}

impl<T: Choice> OptionValue for T {
    fn parse(text: &str) -> Result<T, String> {
        choose(text, &[])
    }

    fn text(&self) -> String {
        let name = T::choices().into_iter().find(|(_, value)| value == self).expect("every value has a name").0;
        name.into()
    }
}

impl<T: Choice> OptionValue for Option<T> {
    fn parse(text: &str) -> Result<Option<T>, String> {
        if text == PRESET { Ok(None) } else { choose(text, &[PRESET]).map(Some) }
    }

    fn text(&self) -> String {
        self.map_or_else(|| PRESET.into(), |value| value.text())
    }
}

/// Returns the value with the name `text`. The error for an unknown name lists the names of all
/// values of the type, and further valid names, `more`.
fn choose<T: Choice>(text: &str, more: &[&str]) -> Result<T, String> {
    let choices = T::choices();
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = more.iter().copied().chain(choices.iter().map(|(name, _)| *name)).collect();
        format!("expected one of {}", names.join(", "))
    })
}

macro_rules! named_choice {
    ($($type:ident),*) => {$(
        impl Choice for $type {
            fn choices() -> Vec<(&'static str, $type)> {
                $type::ALL.iter().map(|value| (value.name(), *value)).collect()
            }
        }
    )*};
}
named_choice!(TableForm, Values, Codec, DurabilityMode, GcMode, Recovery, CompactionPri, CompactionStyle);

impl Choice for FilterForm {
    fn choices() -> Vec<(&'static str, FilterForm)> {
        vec![("block", FilterForm::Block), ("table", FilterForm::Table)]
    }
}

impl Choice for WalWriteMode {
    fn choices() -> Vec<(&'static str, WalWriteMode)> {
        vec![("write", WalWriteMode::Write), ("map", WalWriteMode::Map)]
    }
}

/// Parses a number with an optional unit as [`parse_size`](super::size::parse_size) does.
fn parse_number<T: TryFrom<i128>>(text: &str) -> Result<T, String> {
    T::try_from(super::size::parse_number(text)?).map_err(|_| "the number is out of range".into())
}
