//! The layout of a store: chosen at creation and recorded in the [FORMAT
//! file](crate::format_file).
//!
//! The first variant of each enum is LevelDB's. Every other variant is a feature: the manifest
//! announces it, so that LevelDB and older versions of Terrace refuse the store.

macro_rules! choices {
    ($(#[$about:meta])* $kind:ident { $($(#[$what:meta])* $choice:ident = $name:literal, $feature:expr;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $kind {
            #[default]
            $($(#[$what])* $choice,)+
        }

        impl $kind {
            /// All variants; the first is LevelDB's.
            pub const ALL: &'static [$kind] = &[$($kind::$choice),+];

            /// Returns the name used by the format file and by options.
            pub fn name(self) -> &'static str {
                match self { $($kind::$choice => $name),+ }
            }

            /// Returns the variant called `name`.
            pub fn from_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|choice| choice.name() == name)
            }

            /// Returns the feature flag of a store with this variant; `None` for LevelDB's.
            pub fn feature(self) -> Option<&'static str> {
                match self { $($kind::$choice => $feature),+ }
            }
        }
    };
}

choices! {
    /// The medium of a store's files.
    Medium {
        /// A directory of files.
        Directory = "directory", None;
        /// WALs and SSTables on a raw device, everything else in a directory.
        Split = "split", Some("split-storage");
    }
}

choices! {
    /// The form of SSTables.
    TableForm {
        /// One file per SSTable, as in LevelDB.
        Block = "block", None;
        /// One folder per SSTable, with a file per key-value pair.
        Directory = "directory", Some("directory-tables");
        /// One file per compaction with all its SSTables, see [`bundle`](crate::bundle). SSTables
        /// of a flush have files of their own.
        Bundled = "bundled", Some("bundled-tables");
    }
}

choices! {
    /// The location of values.
    Values {
        /// In the SSTables, next to their keys.
        Table = "table", None;
        /// In the WAL, above a size threshold; SSTables hold value pointers.
        Log = "log", Some("value-log");
    }
}

/// The layout of a store. The default is LevelDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The medium of the files.
    pub medium: Medium,
    /// The form of SSTables.
    pub tables: TableForm,
    /// The location of values.
    pub values: Values,
}

impl Layout {
    /// Returns the feature flags of a store with this layout; none for LevelDB's.
    pub fn features(self) -> impl Iterator<Item = &'static str> {
        [self.medium.feature(), self.tables.feature(), self.values.feature()].into_iter().flatten()
    }

    /// Returns whether some layout has this feature flag.
    pub fn any_announces(feature: &str) -> bool {
        let storages = Medium::ALL.iter().map(|choice| choice.feature());
        let tables = TableForm::ALL.iter().map(|choice| choice.feature());
        let values = Values::ALL.iter().map(|choice| choice.feature());
        storages.chain(tables).chain(values).flatten().any(|known| known == feature)
    }
}
