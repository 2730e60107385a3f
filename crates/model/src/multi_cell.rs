//! Multi-cell columns as one value, as a reader sees them. Each of their cells is an element (lists, sets,
//! maps and user types that are not frozen).

use crate::cell::Cell;
use crate::types::CqlType;
use crate::types::collection::push_element;
use bytes::Bytes;

/// The value that the live ones of `cells` make up at `now_s` (seconds since the epoch), in the encoding of
/// the frozen type; `None` when none is live. `cells` are those of one column, in path order.
pub fn assemble(ty: &CqlType, cells: &[Cell], now_s: u32) -> Option<Bytes> {
    let mut out = Vec::new();
    assemble_into(&mut out, ty, cells, now_s).then(|| out.into())
}

/// [`assemble`] into a buffer that the caller uses again; false, and nothing is appended, when no cell is
/// live.
pub fn assemble_into(out: &mut Vec<u8>, ty: &CqlType, cells: &[Cell], now_s: u32) -> bool {
    let live = || cells.iter().filter(|c| c.is_live(now_s));
    let count = live().count();
    if count == 0 {
        return false;
    }
    out.reserve(4 + live().map(|c| c.path.len() + c.value.len() + 8).sum::<usize>());
    if let CqlType::Udt { definition, .. } = ty {
        // Fields that a newer definition of the type added at the end are null.
        for index in 0..definition.fields.len() {
            let field = live().find(|c| field_index(c) == Some(index));
            push_element(out, field.map(|c| c.value.as_ref()));
        }
        return true;
    }
    out.extend_from_slice(&(count as i32).to_be_bytes());
    for cell in live() {
        if matches!(ty, CqlType::Set { .. } | CqlType::Map { .. }) {
            push_element(out, Some(&cell.path));
        }
        if matches!(ty, CqlType::List { .. } | CqlType::Map { .. }) {
            push_element(out, Some(&cell.value));
        }
    }
    true
}

/// Which field of a user type a cell holds.
pub fn field_index(cell: &Cell) -> Option<usize> {
    field_of_path(&cell.path)
}

/// Which field of a user type the cell with this path holds.
pub fn field_of_path(path: &[u8]) -> Option<usize> {
    usize::try_from(i16::from_be_bytes(*path.as_array()?)).ok()
}

/// The path of a field's cell.
pub fn field_path(index: usize) -> Bytes {
    Bytes::copy_from_slice(&(index as i16).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnId;
    use crate::types::UserType;
    use std::sync::Arc;

    fn cell(path: &'static [u8], value: &'static [u8]) -> Cell {
        Cell::live(ColumnId(0), 1, Bytes::from_static(value)).with_path(Bytes::from_static(path))
    }

    #[test]
    fn only_live_cells_count() {
        let mut expired = cell(b"b", b"2");
        (expired.ttl, expired.local_deletion_time) = (5, 10);
        let cells = [cell(b"a", b"1"), expired];
        let map = CqlType::map(CqlType::Text, CqlType::Text, true);
        assert_eq!(map.to_json(assemble(&map, &cells, 9).as_deref()), r#"{"a": "1", "b": "2"}"#);
        assert_eq!(map.to_json(assemble(&map, &cells, 10).as_deref()), r#"{"a": "1"}"#);
        assert_eq!(assemble(&map, &cells[1..], 10), None);
        let list = CqlType::list(CqlType::Text, true);
        assert_eq!(list.to_json(assemble(&list, &cells, 9).as_deref()), r#"["1", "2"]"#);
        let set = CqlType::set(CqlType::Text, true);
        assert_eq!(set.to_json(assemble(&set, &cells, 9).as_deref()), r#"["a", "b"]"#);
    }

    #[test]
    fn fields_without_a_cell_are_null() {
        let fields = ["x", "y", "z"].map(|n| (n.to_owned(), CqlType::Text)).to_vec();
        let definition = Arc::new(UserType { keyspace: "ks".into(), name: "u".into(), fields });
        let ty = CqlType::Udt { definition, multi_cell: true };
        let cells = [cell(b"\0\x01", b"v")];
        assert_eq!(ty.to_json(assemble(&ty, &cells, 0).as_deref()), r#"{"x": null, "y": "v", "z": null}"#);
        assert_eq!(field_index(&cell(b"", b"").with_path(field_path(2))), Some(2));
    }
}
