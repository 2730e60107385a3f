//! TOC.txt: the names of an SSTable's components, one a line (docs/formats/sstable-big.md).

use crate::descriptor::Component;

/// Whether a TOC, whose other lines need not be text, has a line with a component.
pub(crate) fn names(toc: &[u8], component: Component) -> bool {
    String::from_utf8_lossy(toc).lines().any(|line| line.trim() == component.file_part())
}

/// The text of a TOC.
pub(crate) fn encode(components: &[Component]) -> String {
    components.iter().map(|c| format!("{c}\n")).collect()
}
