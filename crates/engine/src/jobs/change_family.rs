//! Creates and drops column families in the manifest.
use super::commit_edits::{append_now, delete_obsolete};
use crate::{Result, read::view::View, state::DbInner};
use std::sync::Arc;
use terrace_format::{
    FamilyId,
    edit::{COLUMN_FAMILIES, Edit, FamilyChange},
};

/// Records `change` (the creation or the drop of a column family) in the manifest, syncs the
/// manifest, and applies the change. The record does not wait for pending edits, because it
/// depends on none of them: a new family has no tables, and a family is dropped only when no edit
/// of it is pending.
///
/// A family is created in the manifest before any WAL can contain a write to it. A family is
/// dropped while no write runs. A WAL may still contain earlier writes to a dropped family; replay
/// ignores them.
pub fn change_family(shared: &Arc<DbInner>, change: FamilyChange) -> Result<()> {
    let mut slot = shared.manifest.lock();
    let manifest = slot.as_mut().expect("a store open for writing has a manifest");
    let edit = Edit { requires: vec![COLUMN_FAMILIES.into()], families: vec![change.clone()], ..Edit::default() };
    // After a failed append, it is unknown whether the manifest contains the change. The store
    // stops, so that no edit follows.
    append_now(shared, manifest, &edit).inspect_err(|error| shared.fail(error))?;
    let removable = {
        let mut state = shared.state.lock();
        if let FamilyChange::Dropped(family) = &change {
            state.compactions.forget(*family);
        }
        let removable = state.versions.change_family(change)?;
        let version = state.versions.live().clone();
        shared.set_view(&state, |view| {
            let mut families = view.families.clone();
            if families.keys().any(|family| version.tree(*family).is_none()) {
                Arc::make_mut(&mut families).retain(|family, _| version.tree(*family).is_some());
            }
            View { families, version, ..view.clone() }
        });
        shared.schedule(&mut state);
        removable
    };
    drop(slot);
    delete_obsolete(shared, &removable);
    Ok(())
}

/// Waits until no compaction of `family` runs. The caller ensures that no new one starts.
pub fn quiesce(shared: &DbInner, family: FamilyId) -> Result<()> {
    shared.wait_until(|state| !state.compactions.runs_in(family))
}
