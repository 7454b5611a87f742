//! The open files of a mounted device. All handles on one file share one [`File`].
use super::{
    file::File,
    mount::{Mount, OpenFile, State},
};
use std::{
    any::Any,
    io::{ErrorKind, Result},
    sync::{Arc, Weak},
};
use terrace_format::raw::{Change, Form};

impl Mount {
    /// Creates the file `name`. `stream` is its lifetime class.
    pub fn create(self: &Arc<Mount>, name: &str, form: Form, stream: u8) -> Result<Arc<File>> {
        let mut state = self.changing()?;
        if state.table.find(name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = state.table.next().max(state.journal.first_number());
        let begin = [Change::File { file, form, stream }, Change::Name { file, name: name.into() }];
        self.record(&mut state, &begin)?;
        Ok(self.opened(&mut state, file))
    }

    /// Opens the file `name`.
    pub fn open(self: &Arc<Mount>, name: &str) -> Result<Arc<File>> {
        let mut state = self.state.lock();
        let number = state.table.find(name).ok_or(ErrorKind::NotFound)?;
        Ok(self.opened(&mut state, number))
    }

    /// Returns all names, each with its file.
    pub fn files(self: &Arc<Mount>) -> Vec<(String, Arc<File>)> {
        let mut state = self.state.lock();
        let names: Vec<_> = state.table.names().map(|(name, number, _)| (name.to_string(), number)).collect();
        names.into_iter().map(|(name, number)| (name, self.opened(&mut state, number))).collect()
    }

    fn opened(self: &Arc<Mount>, state: &mut State, number: u64) -> Arc<File> {
        if let Some(file) = state.open.get(&number).and_then(Weak::upgrade) {
            let file: Arc<dyn Any + Send + Sync> = file;
            return file.downcast().expect("every open file has this type");
        }
        let entry = state.table.file(number).expect("its name was just found");
        let file = Arc::new(File::new(self.clone(), number, entry));
        let known: Weak<dyn OpenFile> = Arc::<File>::downgrade(&file);
        state.open.insert(number, known);
        file
    }
}
