//! An operator's changes of the files, and look-ups of the tests.

use super::{Disk, Inode, PAGE};
use std::collections::BTreeMap;
use vote_status::store::commit_marker::MARKER_FILE;

impl Disk {
    /// The operator empties the file, or writes other content over it.
    pub(crate) fn replace(&mut self, name: &str, content: &[u8]) {
        let Some(inode) = self.names.get(name).and_then(|inode| self.inodes.get_mut(inode)) else {
            return;
        };
        inode.seen = content.to_vec();
        inode.durable = content.to_vec();
        inode.writes += 1;
        inode.dirty.clear();
        inode.lost.clear();
        (inode.shortest, inode.is_doubtful) = (None, false);
        inode.allocated = (0..content.len().div_ceil(PAGE)).collect();
        inode.reserved.clone_from(&inode.allocated);
    }

    /// The operator renames the file and syncs the folder.
    pub(crate) fn move_away(&mut self, from: &str, to: &str) {
        if let Some(inode) = self.names.remove(from) {
            self.names.insert(to.to_owned(), inode);
            self.names_before.clear();
        }
    }

    /// The operator puts a new file there.
    pub(crate) fn put(&mut self, name: &str, content: &[u8]) {
        let inode = self.fresh();
        self.inodes.insert(inode, Inode::default());
        self.names.insert(name.to_owned(), inode);
        self.names_before.clear();
        self.replace(name, content);
    }

    /// The operator deletes a file and syncs the folder.
    pub(crate) fn delete(&mut self, name: &str) {
        if self.names.remove(name).is_some() {
            self.names_before.clear();
        }
        if name == MARKER_FILE {
            // The store's mark goes with the note, so no later process knows of a failed sync.
            self.is_note_deleted = true;
            self.inodes.values_mut().for_each(|inode| inode.is_doubtful = false);
        }
    }

    /// Whether a sync may have failed without its mark: the operator has deleted the note that keeps the mark.
    pub(crate) fn may_lack_mark(&self) -> bool {
        self.is_note_deleted && self.failed_syncs > 0
    }

    /// Whether a file has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Whether the synced content of a file outlasts a power cut: no sync of the file has failed, and its name lasts.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        let lasts = |names: &BTreeMap<String, u64>| names.get(name) == self.names.get(name);
        let inode = self.names.get(name).and_then(|inode| self.inodes.get(inode));
        inode.is_some_and(|inode| !inode.is_doubtful) && self.names_before.iter().all(lasts)
    }

    /// The length of a file, in bytes.
    pub(crate) fn length_of(&self, name: &str) -> usize {
        self.names.get(name).and_then(|inode| self.inodes.get(inode)).map_or(0, |inode| inode.seen.len())
    }

    /// The content that a backup of the file would have.
    pub(crate) fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.names.get(name).and_then(|inode| self.inodes.get(inode)).map(|inode| inode.seen.clone())
    }
}
