//! TOC.txt: the names of an SSTable's components, one a line (docs/formats/sstable-big.md).

use crate::descriptor::Component;

/// The text of a TOC.
pub(crate) fn encode(components: &[Component]) -> String {
    components.iter().map(|c| format!("{c}\n")).collect()
}
