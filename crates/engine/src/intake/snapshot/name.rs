//! Names that a snapshot may have: those of directories that people can tell from each other, right below
//! `snapshots`.

use crate::error::EngineError;

/// Bytes of a file's name.
const NAME_BYTES_MAX: usize = 255;

/// Refuses what cannot be, or should not be, the name of a snapshot.
pub(super) fn check_name(tag: &str) -> Result<(), EngineError> {
    check_path(tag)?;
    match tag.chars().find(|c| is_invisible(*c)) {
        Some(c) => refuse(tag, format!("it contains the control or format character U+{:04X}", u32::from(c))),
        None => Ok(()),
    }
}

/// Refuses what does not lead to a directory right below `snapshots`, but to the table itself, elsewhere or
/// nowhere. What another node once took as a name can be removed by it.
pub(super) fn check_path(tag: &str) -> Result<(), EngineError> {
    if tag.is_empty() {
        return refuse(tag, "it is empty".to_owned());
    }
    if tag == "." || tag == ".." {
        return refuse(tag, "it is the name of another directory".to_owned());
    }
    if let Some(c) = tag.chars().find(|c| matches!(c, '/' | '\0')) {
        return refuse(tag, format!("it contains {c:?}"));
    }
    if tag.len() > NAME_BYTES_MAX {
        return refuse(tag, format!("it has {} bytes, {NAME_BYTES_MAX} are the most", tag.len()));
    }
    Ok(())
}

fn refuse(tag: &str, reason: String) -> Result<(), EngineError> {
    Err(EngineError::SnapshotName { name: tag.to_owned(), reason })
}

/// Whether a character cannot be seen, or changes how others are shown: those of Unicode's classes Cc, Cf, Zl
/// and Zp.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}
