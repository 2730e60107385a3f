//! The releases of Cassandra whose directories are served. A directory keeps the form of the release that
//! made it: its system tables have that release's columns, and its schema uses nothing that the release does
//! not know.

use std::fmt;

/// A release line of Cassandra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// 4.0
    V4_0,
    /// 4.1
    V4_1,
    /// 5.0, the form of a new directory
    #[default]
    V5_0,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Release; 3] = [Release::V4_0, Release::V4_1, Release::V5_0];

    /// The release line of a version such as `4.1.10` or `5.0-beta1`; `None` for one whose directories are
    /// not served.
    pub fn of_version(version: &str) -> Option<Release> {
        Release::ALL.into_iter().find(|release| {
            let rest = version.strip_prefix(release.number());
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
        })
    }

    /// Major and minor number.
    pub fn number(self) -> &'static str {
        match self {
            Release::V4_0 => "4.0",
            Release::V4_1 => "4.1",
            Release::V5_0 => "5.0",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn versions_belong_to_release_lines() {
        for (version, release) in [
            ("4.0.17", Some(Release::V4_0)),
            ("4.0", Some(Release::V4_0)),
            ("4.1-alpha1", Some(Release::V4_1)),
            ("5.0.5", Some(Release::V5_0)),
            ("5.0-SNAPSHOT", Some(Release::V5_0)),
            ("3.11.19", None),
            ("4.10.1", None),
            ("5.1", None),
            ("", None),
        ] {
            assert_eq!(Release::of_version(version), release, "{version}");
        }
        assert!(Release::V4_0 < Release::V4_1 && Release::V4_1 < Release::V5_0);
    }
}
