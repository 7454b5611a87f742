//! Fault injection for a file system with folders (for directory tables: SSTables stored as
//! directories).
use super::{FaultFs, Needs};
use std::io;
use terrace_vfs::{Folders, Inside, Room};

impl FaultFs {
    fn inner_folders(&self) -> io::Result<&dyn Folders> {
        self.inner.folders().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl Folders for FaultFs {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.call(Needs::Space)?;
        self.inner_folders()?.make_folder(name)?;
        self.counter.lock().unsynced.insert(name.into());
        Ok(())
    }

    fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.call(Needs::Device)?;
        self.inner_folders()?.remove_folder(name)?;
        let mut counter = self.counter.lock();
        counter.unsynced.remove(name);
        counter.lost.remove(name);
        Ok(())
    }

    fn list_folder(&self, name: &str) -> io::Result<Vec<Inside>> {
        self.call(Needs::Device)?;
        self.inner_folders()?.list_folder(name)
    }

    fn link_into(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Needs::Space)?;
        self.inner_folders()?.link_into(from, to)
    }

    fn sync_folders(&self, names: &[String]) -> io::Result<()> {
        if let Err(error) = self.call(Needs::Sync) {
            let mut counter = self.counter.lock();
            let unsynced = std::mem::take(&mut counter.unsynced);
            counter.lost.extend(unsynced);
            return Err(error);
        }
        let names: Vec<String> = {
            let counter = self.counter.lock();
            names.iter().filter(|name| !counter.lost.contains(*name)).cloned().collect()
        };
        self.inner_folders()?.sync_folders(&names)?;
        let mut counter = self.counter.lock();
        counter.unsynced.retain(|name| !names.contains(name));
        Ok(())
    }

    fn name_bytes_max(&self) -> io::Result<usize> {
        self.inner_folders()?.name_bytes_max()
    }

    fn room(&self) -> io::Result<Room> {
        self.inner_folders()?.room()
    }
}
