//! Plain rows, handed on where they lie.
//!
//! A row as fragments have it owns its clustering, and counts the users of the page that its values lie in.
//! Who copies the values anyway does without, for rows that nothing else bears on: there is one source, and
//! neither the row nor what holds for it is deleted or expires.

use model::ColumnId;
use model::row::ResultRow;

/// A cell without a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainCell<'p> {
    /// The column, which has no other cell in the row.
    pub column: ColumnId,
    /// Microseconds since the epoch.
    pub timestamp: i64,
    /// The value; a counter's is a context.
    pub value: &'p [u8],
}

/// A row that is live as long as nobody deletes it, with the cells of the columns that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlainRow<'p> {
    /// Values of the clustering columns; `None` for a component that is absent.
    pub clustering: &'p [Option<&'p [u8]>],
    /// The cells, by ascending column.
    pub cells: &'p [PlainCell<'p>],
}

/// Takes plain rows of a result, each beside a result row without a row, which has its key and its static
/// row. Says whether it takes another row.
pub type TakeLive<'t> = dyn FnMut(&ResultRow<'_>, PlainRow<'_>) -> bool + 't;

/// Takes plain rows; says whether it takes another one.
pub type TakePlain<'t> = dyn FnMut(PlainRow<'_>) -> bool + 't;
