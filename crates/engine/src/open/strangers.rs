//! Directories that look like a table's and are of none: of a dropped table, or of one of an older schema.
//!
//! They stay. A start says in one line what they hold: snapshots, which `nodetool clearsnapshot` removes, or
//! anything else, which only its owner can judge. An empty directory is nothing to tell of.

use env::fs::{EntryKind, FileSystem};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Directories that a line names.
const NAMED_MAX: usize = 5;

/// What the directories of no table hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Strangers {
    /// Directories of nothing but snapshots.
    snapshots_only: Vec<PathBuf>,
    /// The others.
    unknown: Vec<PathBuf>,
}

impl Strangers {
    /// Looks into the keyspaces of `roots` for tables' directories that are not `known`.
    pub(super) fn find<'a>(
        fs: &dyn FileSystem,
        roots: impl Iterator<Item = &'a PathBuf>,
        known: &HashSet<PathBuf>,
    ) -> Strangers {
        let below = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs.read_dir(dir).unwrap_or_default().into_iter();
            entries.filter(|e| e.kind == EntryKind::Dir).map(|e| dir.join(e.name)).collect()
        };
        let mut found = Strangers::default();
        for directory in roots.flat_map(|root| below(root)).flat_map(|keyspace| below(&keyspace)) {
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let is_table = name.rsplit_once('-').is_some_and(|(_, id)| Uuid::try_parse(id).is_ok());
            if !is_table || known.contains(&directory) {
                continue;
            }
            let held = fs.read_dir(&directory).unwrap_or_default();
            if held.is_empty() {
                continue;
            }
            let is_snapshots = held.iter().all(|e| e.kind == EntryKind::Dir && e.name == "snapshots");
            match is_snapshots {
                true => found.snapshots_only.push(directory),
                false => found.unknown.push(directory),
            }
        }
        found
    }

    /// Says what was left alone. Snapshots of dropped tables are no reason to warn.
    pub(super) fn tell(&self) {
        match (self.snapshots_only.is_empty(), self.unknown.is_empty()) {
            (true, true) => {}
            (false, true) => tracing::info!("{self}"),
            (_, false) => tracing::warn!("{self}"),
        }
    }
}

impl fmt::Display for Strangers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (snapshots, unknown) = (self.snapshots_only.len(), self.unknown.len());
        write!(f, "left alone, because no table of the schema has them: ")?;
        if snapshots > 0 {
            let noun = if snapshots == 1 { "directory" } else { "directories" };
            write!(
                f,
                "{snapshots} {noun} of snapshots of dropped tables (nodetool listsnapshots shows them, nodetool clearsnapshot removes them)"
            )?;
        }
        if snapshots > 0 && unknown > 0 {
            write!(f, "; ")?;
        }
        if unknown > 0 {
            let noun = if unknown == 1 { "directory" } else { "directories" };
            write!(f, "{unknown} {noun} of other files: ")?;
            for (at, directory) in self.unknown.iter().take(NAMED_MAX).enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(f, "{comma}{}", directory.display())?;
            }
            if unknown > NAMED_MAX {
                write!(f, " and {} more", unknown - NAMED_MAX)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::fs::memory::MemoryFileSystem;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn found(files: &[String], dirs: &[String], known: &[String]) -> String {
        let fs = MemoryFileSystem::new();
        let path = |name: &String| PathBuf::from("/data/ks").join(name);
        for dir in dirs {
            fs.create_dir_all(&path(dir)).unwrap();
        }
        for file in files {
            fs.create_dir_all(path(file).parent().unwrap()).unwrap();
            fs.write(&path(file), b"x").unwrap();
        }
        let known = known.iter().map(path).collect();
        Strangers::find(&fs, [PathBuf::from("/data")].iter(), &known).to_string()
    }

    #[test]
    fn snapshots_of_dropped_tables_are_counted_in_one_line_that_names_the_command() {
        let files: Vec<String> =
            (0..46).map(|n| format!("t{n}-{ID}/snapshots/dropped-{n}/manifest.json")).collect();
        let line = found(&files, &[], &[]);
        assert!(line.contains("46 directories of snapshots of dropped tables"), "{line}");
        assert!(line.contains("nodetool clearsnapshot"), "{line}");
        assert!(!line.contains('\n') && !line.contains("/data"), "{line}");
    }

    #[test]
    fn directories_of_other_files_are_named_up_to_a_bound() {
        let mut files: Vec<String> = (0..7).map(|n| format!("t{n}-{ID}/nb-1-big-Data.db")).collect();
        files.push(format!("t0-{ID}/snapshots/s/manifest.json"));
        files.push(format!("s-{ID}/snapshots/s/manifest.json"));
        let line = found(&files, &[], &[]);
        assert!(line.contains("1 directory of snapshots"), "{line}");
        assert!(line.contains("7 directories of other files: /data/ks/t0-"), "{line}");
        assert!(line.ends_with(" and 2 more"), "{line}");
    }

    #[test]
    fn tables_of_the_schema_empty_directories_and_other_names_are_not_told_of() {
        let (table, other) = (format!("t-{ID}"), "notes".to_owned());
        let files = [format!("{table}/nb-1-big-Data.db"), format!("{other}/file")];
        let line = found(&files, &[format!("gone-{ID}")], &[table]);
        assert_eq!(line, Strangers::default().to_string());
    }
}
