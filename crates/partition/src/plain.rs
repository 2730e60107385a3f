//! Plain rows, handed on where they lie.
//!
//! A row as fragments have it owns its clustering, and counts the users of the page that its values lie in.
//! Who copies the values anyway does without, for rows that nothing else bears on: nothing is merged with
//! them, and neither the row nor what holds for it is deleted or expires.
//!
//! ```text
//! page  ...[flags, sizes][ c0 ][ts][ a ][ b ]...
//!                          └─── places ──┘      of PlainParts, which are used again for the next row
//! ```

use bytes::Bytes;
use model::row::ResultRow;
use model::{ColumnId, Component};

/// Where in a page some bytes lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub start: u32,
    /// How many there are.
    pub len: u32,
}

/// A cell without a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainCell {
    /// The column, which has no other cell in the row.
    pub column: ColumnId,
    /// Microseconds since the epoch.
    pub timestamp: i64,
    /// The value; a counter's is a context.
    pub value: Place,
}

/// Where in a page the parts of a plain row lie.
#[derive(Clone, Debug, Default)]
pub struct PlainParts {
    /// Values of the clustering columns; `None` for a component that is absent.
    pub clustering: Vec<Option<Place>>,
    /// The cells of wanted columns, by ascending column.
    pub cells: Vec<PlainCell>,
}

/// A row that is live as long as nobody deletes it, with the cells of the columns that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlainRow<'p> {
    page: &'p [u8],
    parts: &'p PlainParts,
}

impl<'p> PlainRow<'p> {
    /// The row whose parts lie in `page`.
    pub fn new(page: &'p [u8], parts: &'p PlainParts) -> PlainRow<'p> {
        PlainRow { page, parts }
    }

    /// The value of a clustering column; `None` for one that is absent.
    #[inline]
    pub fn clustering(&self, position: usize) -> Option<PlainValue<'p>> {
        let place = (*self.parts.clustering.get(position)?)?;
        Some(self.value(place))
    }

    /// The components of the clustering, in order.
    #[inline]
    pub fn components(&self) -> impl Iterator<Item = Component<'p>> + use<'p> {
        let row = *self;
        self.parts.clustering.iter().map(move |place| match place {
            Some(place) => Component::Value(row.value(*place).bytes()),
            None => Component::Null,
        })
    }

    /// The cells, by ascending column.
    #[inline]
    pub fn cells(&self) -> &'p [PlainCell] {
        &self.parts.cells
    }

    /// The value that lies at a place.
    #[inline]
    pub fn value(&self, place: Place) -> PlainValue<'p> {
        PlainValue { page: self.page, place }
    }
}

/// A value where it lies, with what follows it.
#[derive(Clone, Copy, Debug)]
pub struct PlainValue<'p> {
    page: &'p [u8],
    place: Place,
}

impl<'p> PlainValue<'p> {
    /// The value.
    #[inline]
    pub fn bytes(&self) -> &'p [u8] {
        let (start, len) = (self.place.start as usize, self.place.len as usize);
        self.page.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
    }

    /// The value's length, and `N` bytes that begin with it. `None` for a longer value, and near the end of
    /// the page. A copy of a fixed length costs less than one of a length that has to be looked at.
    #[inline]
    pub fn padded<const N: usize>(&self) -> Option<(usize, &'p [u8; N])> {
        let (start, len) = (self.place.start as usize, self.place.len as usize);
        if len > N {
            return None;
        }
        Some((len, self.page.get(start..)?.first_chunk::<N>()?))
    }
}

/// A plain row that a source stands at, for a merge that looks at several sources at once.
#[derive(Clone, Debug, Default)]
pub struct PlainHead {
    page: Bytes,
    /// Where its parts lie.
    pub parts: PlainParts,
}

impl PlainHead {
    /// Says which page the parts lie in.
    #[inline]
    pub fn set_page(&mut self, page: &Bytes) {
        // Rows of one page follow each other, and to count its users costs more than to compare.
        if self.page.as_ptr() != page.as_ptr() || self.page.len() != page.len() {
            self.page = page.clone();
        }
    }

    /// The row.
    #[inline]
    pub fn row(&self) -> PlainRow<'_> {
        PlainRow::new(&self.page, &self.parts)
    }
}

/// Takes plain rows of a result, each beside a result row without a row, which has its key and its static
/// row. Says whether it takes another row.
pub type TakeLive<'t> = dyn FnMut(&ResultRow<'_>, PlainRow<'_>) -> bool + 't;

/// Takes plain rows; says whether it takes another one.
pub type TakePlain<'t> = dyn FnMut(PlainRow<'_>) -> bool + 't;
