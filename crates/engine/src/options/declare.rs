//! The macro that makes three things from the declarations of options in `table.rs`: the struct of
//! all options, their defaults, and their text form.
use super::{Options, value::OptionValue};
use std::{fmt::Display, ops::RangeInclusive};

/// The data of one declared option. The code generates the text form, the help, the validation and
/// the options page from this data.
pub(super) struct Spec {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub group: &'static str,
    pub unit: &'static str,
    /// The lines of the option's doc comment.
    pub doc: &'static str,
    /// The smallest and the largest allowed value; empty for a type without bounds.
    pub bounds: &'static [(i128, i128)],
    pub get: fn(&Options) -> String,
    pub set: fn(&mut Options, &str) -> Result<(), String>,
    /// Returns a description of the problem with the option's value, if there is one.
    pub check: fn(&Options) -> Option<String>,
}

/// Returns a description of the problem if the option's `value` is outside of `bounds`.
pub(super) fn out_of_bounds<T: PartialOrd + Display>(
    name: &str,
    value: T,
    bounds: RangeInclusive<T>,
) -> Option<String> {
    let problem = || format!("{name} is {value}; it must be between {} and {}", bounds.start(), bounds.end());
    (!bounds.contains(&value)).then(problem)
}

/// Sets `field` from its text form.
pub(super) fn parse<T: OptionValue>(field: &mut T, text: &str) -> Result<(), String> {
    *field = T::parse(text)?;
    Ok(())
}

macro_rules! declare_options {
    (
        $(#[$struct_attribute:meta])*
        pub struct $struct:ident {
            $($(#[$private_attribute:meta])* $visibility:vis $private:ident: $private_type:ty = $initial:expr;)*
        }
        $(
            $group:literal {
                $(
                    $(#[doc = $doc:literal])+
                    $name:ident: $type:ty $([$unit:literal])? = $default:expr
                    $(, in $bounds:expr)?
                    $(, alias $alias:literal)*;
                )*
            }
        )*
    ) => {
        $(#[$struct_attribute])*
        pub struct $struct {
            $($(
                $(#[doc = $doc])+
                #[doc = concat!(
                    "\n\nDefault `", stringify!($default), "`" $(, " (", $unit, ")")?
                    $(, "; bounds `", stringify!($bounds), "`")?, "."
                )]
                pub $name: $type,
            )*)*
            $($(#[$private_attribute])* $visibility $private: $private_type,)*
        }

        impl $struct {
            /// Returns the options that reproduce LevelDB's design and numbers. LevelDB can open
            /// the store after a clean close.
            ///
            /// ```
            /// # use terrace::Options;
            /// assert_eq!(Options::leveldb_compatible().write_buffer_size, 4 << 20);
            /// # Ok::<(), terrace::Error>(())
            /// ```
            pub fn leveldb_compatible() -> $struct {
                $struct {
                    $($($name: $default,)*)*
                    $($private: $initial,)*
                }
            }
        }

        /// Every option, in the order of its declaration.
        pub(super) const SPECS: &[Spec] = &[$($(
            Spec {
                name: stringify!($name),
                aliases: &[$($alias),*],
                group: $group,
                unit: concat!($($unit)?),
                doc: concat!($($doc, "\n"),+),
                bounds: &[$((*$bounds.start() as i128, *$bounds.end() as i128))?],
                get: |options| OptionValue::text(&options.$name),
                set: |options, text| parse(&mut options.$name, text),
                check: |_options| {
                    let problems = [None $(, out_of_bounds(stringify!($name), _options.$name, $bounds))?];
                    problems.into_iter().flatten().next()
                },
            },
        )*)*];
    };
}
pub(super) use declare_options;
