//! Where shaped rows go.

/// Takes the rows of a result set, value by value.
pub trait RowSink {
    /// A row starts.
    fn begin_row(&mut self);
    /// The next value of the row; `None` is null.
    fn value(&mut self, value: Option<&[u8]>);
    /// The row is complete.
    fn end_row(&mut self);
}

/// Rows kept in memory, for tests and tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowVec {
    /// The rows.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl RowSink for RowVec {
    fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    fn value(&mut self, value: Option<&[u8]>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(value.map(<[u8]>::to_vec));
        }
    }

    fn end_row(&mut self) {}
}
