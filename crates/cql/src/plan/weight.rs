//! About how much memory a prepared statement holds; rather too much than too little.
//!
//! A plan consists of two kinds of things. Columns of the result and markers are counted. Terms are
//! estimated: a statement cannot have more than its text has room for, so the separators of terms in the text
//! are counted.

use super::Prepared;
use crate::bind::ColumnSpec;
use crate::result::Output;

/// Bytes of a plan and a statement besides what is counted.
const BASE_BYTES: usize = 2_048;
/// Bytes of a term: an expression, its value, what says where it goes.
const TERM_BYTES: usize = 160;
/// Bytes of a statement of a batch besides its terms.
const WRITE_BYTES: usize = 1_024;
/// Bytes that an allocation takes besides its own.
const ALLOCATION_BYTES: usize = 16;

impl Prepared {
    /// Bytes of memory that the plan of the statement `text` holds, the text included, and the schema of its
    /// tables not.
    pub fn held_bytes(&self, text: &str) -> usize {
        let of_column = |column: &ColumnSpec| size_of::<ColumnSpec>() + column.name.len() + ALLOCATION_BYTES;
        let of_columns = |columns: &[ColumnSpec]| columns.iter().map(of_column).sum::<usize>();
        // The columns of a result stand in its shape, too, each with what it is made of.
        let result = 2 * of_columns(&self.result_columns) + self.result_columns.len() * size_of::<Output>();
        BASE_BYTES + text.len() + terms_bytes(text) + of_columns(&self.bind_variables) + result
    }
}

/// Bytes that the terms of a text may come to.
fn terms_bytes(text: &str) -> usize {
    let mut is_quoted = false;
    let of_byte = |byte: u8| {
        if byte == b'\'' {
            is_quoted = !is_quoted;
        }
        match byte {
            _ if is_quoted => 0,
            b';' => WRITE_BYTES,
            b',' | b'(' | b'[' | b'{' | b':' | b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' => TERM_BYTES,
            _ => 0,
        }
    };
    text.bytes().map(of_byte).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_what_the_text_has_room_for() {
        assert_eq!(terms_bytes("SELECT a FROM t WHERE k IN (1,2,3)"), 3 * TERM_BYTES);
        assert_eq!(terms_bytes("SELECT a FROM t WHERE k = '(,,,;)'"), TERM_BYTES);
        let batch = "BEGIN BATCH UPDATE t SET a = 1 WHERE k = 1; UPDATE t SET a = 1 WHERE k = 2; APPLY BATCH";
        assert_eq!(terms_bytes(batch), 4 * TERM_BYTES + 2 * WRITE_BYTES);
    }
}
