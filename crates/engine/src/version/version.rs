//! A version: the tables of each level at one moment.
//!
//! Each column family has a tree of its own, and each tree has a version. The version of the
//! default family contains the versions of all other families, so that one pointer pins all tables
//! of the store.
use super::{
    added_table::meta_of,
    check,
    contents::Contents,
    index::{Placed, TableIndex},
    level::Level,
    run::Run,
    table_ref::TableRef,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_format::{
    FamilyId, KeyOrder, LEVELS, TableId,
    edit::{Edit, FamilyChange},
};

/// The tables of each level.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The levels, from level 0 on.
    pub levels: [Level; LEVELS],
    /// All runs; see [`runs`](Version::runs).
    runs: Vec<(usize, Run)>,
    /// The tables by number. In the version of the default family, this index has the tables of all
    /// families, with their level numbers of [`FamilyId::level`].
    index: Arc<TableIndex>,
    /// The other column families. Only the version of the default family has them; in any other
    /// version the map is empty.
    families: Arc<Families>,
    /// The bytes of compaction that the range reads of this version have paid for. A compaction of
    /// level 0 is due once they pay for it.
    range_read_charge: RangeReadCharge,
    no_tombstone_plan: PlanMemo,
}

/// Column families by number.
pub type Families = BTreeMap<FamilyId, Family>;

/// A column family other than the default one.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name.
    pub name: Arc<str>,
    /// The tables.
    pub version: Arc<Version>,
}

/// The policy inputs with which no tombstone compaction of this version pays off, if such inputs
/// are known. A clone of the version starts without this knowledge.
#[derive(Debug, Default)]
struct PlanMemo(Mutex<Option<[u64; 4]>>);

impl Clone for PlanMemo {
    fn clone(&self) -> PlanMemo {
        PlanMemo::default()
    }
}

/// The bytes of compaction that range reads of one version have paid for. The next version starts
/// at 0. Otherwise reads of earlier versions would cause a compaction of a level 0 that has grown
/// since.
#[derive(Debug, Default)]
struct RangeReadCharge(AtomicU64);

impl Clone for RangeReadCharge {
    fn clone(&self) -> RangeReadCharge {
        RangeReadCharge::default()
    }
}

impl Version {
    /// Returns every run with its level, in read order: of two entries of a key, the newer one is
    /// in the earlier run.
    pub fn runs(&self) -> &[(usize, Run)] {
        &self.runs
    }

    /// Returns those of `tables` (pairs of level and number) that the version has.
    pub fn named(&self, tables: &[(usize, TableId)]) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let wanted: BTreeSet<_> = tables.iter().copied().collect();
        wanted.into_iter().filter_map(|(level, id)| self.index.get(id).filter(|(found, _)| *found == level))
    }

    /// Returns table `id` of this tree with its level.
    pub fn find(&self, id: TableId) -> Option<(usize, &Arc<TableRef>)> {
        self.index.get(id).filter(|(level, _)| *level < LEVELS)
    }

    /// Returns the version of column family `family`, if the family exists. `self` must be the
    /// version of the default family, which contains all others.
    pub fn tree(&self, family: FamilyId) -> Option<&Version> {
        if family == FamilyId::DEFAULT { Some(self) } else { self.families.get(&family).map(|found| &*found.version) }
    }

    /// Returns the column families other than the default one.
    pub fn families(&self) -> &Families {
        &self.families
    }

    /// Returns every tree with the number of its column family, the default family first.
    pub fn trees(&self) -> impl Iterator<Item = (FamilyId, &Version)> {
        let others = self.families.iter().map(|(id, family)| (*id, &*family.version));
        std::iter::once((FamilyId::DEFAULT, self)).chain(others)
    }

    /// Returns whether the version, or that of any column family in it, has table `id`.
    pub fn has_table(&self, id: TableId) -> bool {
        self.index.get(id).is_some()
    }

    /// Returns whether it is known that no tombstone compaction pays off with the policy inputs
    /// `inputs`.
    pub fn has_no_tombstone_plan(&self, inputs: [u64; 4]) -> bool {
        *self.no_tombstone_plan.0.lock() == Some(inputs)
    }

    /// Records that no tombstone compaction pays off with the policy inputs `inputs`. The entry
    /// counts of all tables must be known, because counts that become known later could change the
    /// result.
    pub fn set_no_tombstone_plan(&self, inputs: [u64; 4]) {
        *self.no_tombstone_plan.0.lock() = Some(inputs);
    }

    /// Sets the entry counts of tables in `level`.
    pub fn set_contents(&self, level: usize, contents: Vec<(TableId, Contents)>) {
        for (id, contents) in contents {
            if let Some((_, table)) = self.index.get(id).filter(|(found, _)| *found == level) {
                table.set_contents(contents);
            }
        }
    }

    /// Returns the bytes of each level.
    pub fn held(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.levels[level].bytes())
    }

    /// Returns the levels above the deepest non-empty one.
    pub fn above_deepest(&self) -> &[Level] {
        &self.levels[..self.levels.iter().rposition(|level| level.bytes() > 0).unwrap_or(0)]
    }

    /// Returns every table of all column families with its level number of [`FamilyId::level`].
    pub fn all_tables(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        self.trees().flat_map(|(family, tree)| tree.tables().map(move |(level, table)| (family.level(level), table)))
    }

    /// Returns every table of this tree with its level.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        self.levels.iter().enumerate().flat_map(|(level, l)| l.tables().map(move |table| (level, table)))
    }

    /// Charges a range read, which probed every run of level 0. The read pays for `bytes_per_run`
    /// bytes of compaction for each run. When all charges together pay for a compaction of level 0
    /// into level 1, returns the oldest table of level 0, but only once.
    pub fn charge_range_read(&self, bytes_per_run: u64) -> Option<TableId> {
        const GRAIN: u64 = 1 << 20; // compute the price once per MiB of charges, not per read
        let oldest = self.levels[0].runs.last().filter(|_| bytes_per_run > 0)?;
        let charge = bytes_per_run.saturating_mul(self.levels[0].runs.len() as u64);
        let before = self.range_read_charge.0.fetch_add(charge, Relaxed);
        let (before, after) = (before / GRAIN, before.saturating_add(charge) / GRAIN);
        if before == after {
            return None;
        }
        let compaction_bytes = self.levels[0].bytes().saturating_add(self.levels[1].bytes()).div_ceil(GRAIN);
        (before < compaction_bytes && compaction_bytes <= after)
            .then(|| oldest.first().map(|table| table.meta.id))
            .flatten()
    }

    /// Returns the version that results from this version when `edit` is applied. If the edit does
    /// not apply, returns a description of the reason. The new version shares all chunks of tables
    /// that the edit does not change, and does not check them again.
    pub fn apply(&self, order: &KeyOrder, edit: &Edit) -> Result<Version, String> {
        let in_other = |level: &usize| *level >= LEVELS;
        let levels = || edit.deleted.iter().map(|(level, _)| level).chain(edit.added.iter().map(|(level, _)| level));
        if edit.families.is_empty() && !levels().any(in_other) {
            return self.apply_to_tree(order, edit);
        }
        let mut families = Families::clone(&self.families);
        edit.families.iter().try_for_each(|change| change_family(&mut families, change))?;
        let touched: BTreeSet<FamilyId> = levels().map(|level| FamilyId::of_level(*level).0).collect();
        let mut next = self.apply_to_tree(order, &part_of(edit, FamilyId::DEFAULT))?;
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for id in touched.into_iter().filter(|id| *id != FamilyId::DEFAULT) {
            let family = families.get_mut(&id).ok_or_else(|| format!("column family {id} does not exist"))?;
            let part = part_of(edit, id);
            let place = |(level, table): (usize, &Arc<TableRef>)| (id.level(level), table.clone());
            removed.extend(family.version.named(&part.deleted).map(place));
            let tree = family.version.apply_to_tree(order, &part)?;
            let named: Vec<_> = part.added.iter().map(|(level, table)| (*level, table.id)).collect();
            added.extend(tree.named(&named).map(place));
            family.version = Arc::new(tree);
        }
        for (id, dropped) in self.families.iter().filter(|(id, _)| !families.contains_key(id)) {
            removed.extend(dropped.version.tables().map(|(level, table)| (id.level(level), table.clone())));
        }
        let index = next.index.replaced(removed, added);
        next.index = Arc::new(index.map_err(|id| format!("the edit adds table {id} twice"))?);
        next.families = Arc::new(families);
        Ok(next)
    }

    /// Applies `edit` to one tree, as [`apply`](Version::apply) describes.
    fn apply_to_tree(&self, order: &KeyOrder, edit: &Edit) -> Result<Version, String> {
        let mut removed: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
        let mut removed_ids = BTreeMap::new();
        for (level, id) in &edit.deleted {
            let found = self.index.get(*id).filter(|(found, _)| found == level);
            let Some((_, table)) = found.filter(|(_, table)| removed_ids.insert(*id, Arc::clone(table)).is_none())
            else {
                return Err(format!("the edit deletes table {id}, which is not in level {level}"));
            };
            removed[*level].push(table.clone());
        }
        let mut added: [Vec<Arc<TableRef>>; LEVELS] = Default::default();
        let entries: BTreeMap<TableId, u64> = edit.entries.iter().copied().collect();
        for (level, table) in &edit.added {
            let meta = || meta_of(table, entries.get(&table.id).copied().unwrap_or(0));
            let moved = removed_ids.get(&table.id).map(|moved| moved.in_run(table.run));
            added[*level].push(moved.unwrap_or_else(|| Arc::new(TableRef::new(meta()))));
        }
        let placed = |tables: &[Vec<Arc<TableRef>>; LEVELS]| -> Vec<Placed> {
            let of_level = |(level, tables): (usize, &Vec<Arc<TableRef>>)| {
                tables.iter().map(move |table| (level, table.clone())).collect::<Vec<_>>()
            };
            tables.iter().enumerate().flat_map(of_level).collect()
        };
        let index = self.index.replaced(placed(&removed), placed(&added));
        let index = Arc::new(index.map_err(|id| format!("the edit adds table {id} twice"))?);
        let added_placed = placed(&added);
        let mut next = Version { index, ..self.clone() };
        for (level, (removed, added)) in removed.into_iter().zip(added).enumerate() {
            next.levels[level] = self.levels[level].replaced(order, level, removed, added);
        }
        check::added(order, &next.levels, &added_placed)?;
        Ok(next.with_run_list())
    }

    /// Makes a version of the tables of each level, which may be in any order.
    pub fn from_tables(order: &KeyOrder, tables: [Vec<Arc<TableRef>>; LEVELS]) -> Result<Version, String> {
        let (mut version, mut placed) = (Version::default(), Vec::new());
        for (level, tables) in tables.into_iter().enumerate() {
            placed.extend(tables.iter().map(|table| (level, table.clone())));
            version.levels[level] = Level::new(order, level, tables);
        }
        check::levels(order, &version.levels)?;
        let index = TableIndex::default().replaced(Vec::new(), placed);
        version.index = Arc::new(index.map_err(|id| format!("table {id} occurs twice"))?);
        Ok(version.with_run_list())
    }

    /// Makes the version of the default family from the tables of each level of each column family.
    pub fn from_families(
        order: &KeyOrder,
        default: [Vec<Arc<TableRef>>; LEVELS],
        families: impl IntoIterator<Item = (FamilyId, Arc<str>, [Vec<Arc<TableRef>>; LEVELS])>,
    ) -> Result<Version, String> {
        let mut version = Version::from_tables(order, default)?;
        let (mut placed, mut trees) = (Vec::new(), Families::new());
        for (id, name, tables) in families {
            let tree =
                Version::from_tables(order, tables).map_err(|detail| format!("column family {name}: {detail}"))?;
            placed.extend(tree.tables().map(|(level, table)| (id.level(level), table.clone())));
            trees.insert(id, Family { name, version: Arc::new(tree) });
        }
        let index = version.index.replaced(Vec::new(), placed);
        version.index = Arc::new(index.map_err(|id| format!("table {id} occurs twice"))?);
        version.families = Arc::new(trees);
        Ok(version)
    }

    /// Updates the list of all runs from the levels.
    fn with_run_list(mut self) -> Version {
        let runs =
            |(level, held): (usize, &Level)| held.runs.iter().map(move |run| (level, run.clone())).collect::<Vec<_>>();
        self.runs = self.levels.iter().enumerate().flat_map(runs).collect();
        self
    }
}

/// Creates or drops a column family in `families`.
fn change_family(families: &mut Families, change: &FamilyChange) -> Result<(), String> {
    match change {
        FamilyChange::Created { id, name, .. } => {
            let family = Family { name: name.as_str().into(), version: Arc::default() };
            let twice = families.insert(*id, family).is_some();
            if twice { Err(format!("column family {id} is created twice")) } else { Ok(()) }
        }
        FamilyChange::Dropped(id) => {
            families.remove(id);
            Ok(())
        }
    }
}

/// Returns the part of `edit` that concerns the tables of `family`. The level numbers in the
/// result are those within the family's tree.
fn part_of(edit: &Edit, family: FamilyId) -> Edit {
    let level_in = |number: usize| {
        let (of, level) = FamilyId::of_level(number);
        (of == family).then_some(level)
    };
    Edit {
        deleted: edit.deleted.iter().filter_map(|(level, id)| Some((level_in(*level)?, *id))).collect(),
        added: edit.added.iter().filter_map(|(level, table)| Some((level_in(*level)?, table.clone()))).collect(),
        entries: edit.entries.clone(),
        ..Edit::default()
    }
}
