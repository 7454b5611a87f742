//! The layout of a store. It is chosen when the store is created, and recorded in the [FORMAT
//! file](crate::format_file).
//!
//! The first variant of each enum is LevelDB's format. Every other variant has a feature flag in
//! the manifest. Programs that do not know the flag (LevelDB and older versions of Terrace) refuse
//! the store.

macro_rules! choices {
    ($(#[$about:meta])* $kind:ident { $($(#[$what:meta])* $choice:ident = $name:literal, $feature:expr;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $kind {
            #[default]
            $($(#[$what])* $choice,)+
        }

        impl $kind {
            /// All variants; LevelDB's is the first.
            pub const ALL: &'static [$kind] = &[$($kind::$choice),+];

            /// Returns the name used by the format file and by options.
            pub fn name(self) -> &'static str {
                match self { $($kind::$choice => $name),+ }
            }

            /// Returns the variant called `name`.
            pub fn from_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|choice| choice.name() == name)
            }

            /// Returns the feature flag of this variant; `None` for LevelDB's variant.
            pub fn feature(self) -> Option<&'static str> {
                match self { $($kind::$choice => $feature),+ }
            }
        }
    };
}

choices! {
    /// The medium of the files of a store.
    Medium {
        /// A directory of files.
        Directory = "directory", None;
        /// WALs and SSTables are on a raw device, all other files in a directory.
        Split = "split", Some("split-storage");
    }
}

choices! {
    /// The form of SSTables.
    TableForm {
        /// Each SSTable is one file, as in LevelDB.
        Block = "block", None;
        /// Each SSTable is a folder, with a file for each key-value pair.
        Directory = "directory", Some("directory-tables");
        /// All SSTables of a compaction are in one file, see [`bundle`](crate::bundle). An SSTable
        /// that a flush writes has its own file.
        Bundled = "bundled", Some("bundled-tables");
    }
}

choices! {
    /// The location of values.
    Values {
        /// Values are in the SSTables, next to their keys.
        Table = "table", None;
        /// Values above a size threshold are in the WAL, and SSTables have value pointers.
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

    /// Returns whether any layout has this feature flag.
    pub fn any_announces(feature: &str) -> bool {
        let storages = Medium::ALL.iter().map(|choice| choice.feature());
        let tables = TableForm::ALL.iter().map(|choice| choice.feature());
        let values = Values::ALL.iter().map(|choice| choice.feature());
        storages.chain(tables).chain(values).flatten().any(|known| known == feature)
    }
}
