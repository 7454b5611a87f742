//! What a store is made of, chosen when it is created and remembered by its [`marker`](crate::marker).
//!
//! The first choice of each kind is LevelDB's. Every other one is a feature: the manifest announces it, so that LevelDB, and
//! versions of ours that do not know it, refuse the store.

macro_rules! choices {
    ($(#[$about:meta])* $kind:ident { $($(#[$what:meta])* $choice:ident = $name:literal, $feature:expr;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $kind {
            #[default]
            $($(#[$what])* $choice,)+
        }

        impl $kind {
            /// Every choice; the first is LevelDB's.
            pub const ALL: &'static [$kind] = &[$($kind::$choice),+];

            /// As the marker and options spell it.
            pub fn name(self) -> &'static str {
                match self { $($kind::$choice => $name),+ }
            }

            /// The choice spelled `name`.
            pub fn from_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|choice| choice.name() == name)
            }

            /// The feature that a store with this choice announces; `None` for LevelDB's.
            pub fn feature(self) -> Option<&'static str> {
                match self { $($kind::$choice => $feature),+ }
            }
        }
    };
}

choices! {
    /// Where a store's objects live.
    Medium {
        /// In one flat directory of files.
        Directory = "directory", None;
        /// Logs and tables on a device without a file system, everything else in a directory.
        Split = "split", Some("split-storage");
    }
}

choices! {
    /// How tables are stored.
    TableForm {
        /// Each in a file of its own, as LevelDB writes it.
        Block = "block", None;
        /// Each in a folder of its own, with a file for each pair.
        Directory = "directory", Some("directory-tables");
        /// All that one compaction makes in one file, see [`bundle`](crate::bundle); those of a flush each in its own.
        Bundled = "bundled", Some("bundled-tables");
    }
}

choices! {
    /// Where values live.
    Values {
        /// In the tables, next to their keys.
        Table = "table", None;
        /// In the write-ahead log, from some size on; tables point there.
        Log = "log", Some("value-log");
    }
}

/// What a store is made of. The default is LevelDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where objects live.
    pub medium: Medium,
    /// How tables are stored.
    pub tables: TableForm,
    /// Where values live.
    pub values: Values,
}

impl Layout {
    /// What a store of this shape announces; empty for LevelDB's.
    pub fn features(self) -> impl Iterator<Item = &'static str> {
        [self.medium.feature(), self.tables.feature(), self.values.feature()].into_iter().flatten()
    }

    /// Whether `feature` is announced by some shape.
    pub fn any_announces(feature: &str) -> bool {
        let storages = Medium::ALL.iter().map(|choice| choice.feature());
        let tables = TableForm::ALL.iter().map(|choice| choice.feature());
        let values = Values::ALL.iter().map(|choice| choice.feature());
        storages.chain(tables).chain(values).flatten().any(|known| known == feature)
    }
}
