//! Whether a header without a checksum may be that of a table.
//!
//! Before version `na` a flipped bit in Statistics.db can give a column another type, or the name of another
//! column. Its values would be shown under that name, and decoded as what they are not. What tells:
//!
//! 1. Columns stand in order, each once, as every writer puts them ([`crate::statistics`]).
//! 2. A column has the type that the table has, or had when the column was dropped, or a type that ALTER TYPE
//!    may have changed into that one (`AbstractType.isValueCompatibleWith`; there was such a statement before
//!    3.10).
//! 3. Clustering columns have their order.
//!
//! One fault stays unseen: a name that became that of a column of such a type. That column has no value in
//! this SSTable, and stands in the same place among those that do.

use model::{CqlType, TableSchema};
use partition::codec::{HeaderColumn, SerializationHeader};

/// Fails when a header without a checksum has a type, or an order of rows, that the table never had.
pub(crate) fn check_header(header: &SerializationHeader, table: &TableSchema) -> Result<(), String> {
    for ((ty, descending), column) in header.clustering.iter().zip(table.clustering_columns()) {
        if !may_have_become(ty, &column.ty) || *descending != column.descending {
            return Err(format!("clustering column {} of another type or order: {ty}", column.name));
        }
    }
    for HeaderColumn { name, ty } in header.static_columns.iter().chain(&header.regular_columns) {
        let current = table.column(name).map(|column| &column.ty);
        let dropped = table.dropped_column(name).map(|column| &column.ty);
        let mut known = current.into_iter().chain(dropped).peekable();
        if known.peek().is_some() && !known.any(|known| may_have_become(ty, known)) {
            return Err(format!("column {name} of type {ty}, which it never had"));
        }
    }
    Ok(())
}

/// Whether a column of type `was` may be one of type `is` now. Types with types inside are not looked into:
/// fields of a user type are added and renamed.
fn may_have_become(was: &CqlType, is: &CqlType) -> bool {
    use CqlType::*;
    match (was, is) {
        _ if was == is => true,
        (Custom(_), _) => false,
        (_, Custom(_)) => true,
        (Counter, _) | (_, Counter) => false,
        (List { .. }, List { .. })
        | (Set { .. }, Set { .. })
        | (Map { .. }, Map { .. })
        | (Tuple(_) | Udt { .. }, Tuple(_) | Udt { .. })
        | (Composite(_), Composite(_))
        | (DynamicComposite(_), DynamicComposite(_))
        | (Vector { .. }, Vector { .. }) => true,
        (_, Blob) => !was.is_multi_cell(),
        (Ascii, Text)
        | (Int, Varint | Date)
        | (BigInt, Varint | Timestamp | Time)
        | (Timestamp, BigInt)
        | (TimeUuid, Uuid) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use partition::codec::{DeletionTimes, EncodingStats};
    use uuid::Uuid;

    fn table(columns: &[(&str, CqlType)]) -> TableSchema {
        let builder = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("k", CqlType::Int);
        let builder = builder.clustering("c", CqlType::Int, false);
        columns.iter().fold(builder, |builder, (name, ty)| builder.regular(name, ty.clone())).build()
    }

    #[test]
    fn a_name_that_became_another_columns_is_found_where_that_is_of_another_type() {
        let now = table(&[
            ("va", CqlType::Int),
            ("vb", CqlType::Text),
            ("vc", CqlType::Int),
            ("vd", CqlType::Blob),
        ]);
        let header = |columns: &[(&str, CqlType)]| {
            let times = DeletionTimes::Signed;
            SerializationHeader::of_table(&table(columns), EncodingStats::default(), times)
        };
        assert_eq!(check_header(&header(&[("va", CqlType::Int), ("vb", CqlType::Text)]), &now), Ok(()));
        let said = check_header(&header(&[("vb", CqlType::Int)]), &now).unwrap_err();
        assert!(said.contains("column vb of type int"), "{said}");
        assert!(check_header(&header(&[("va", CqlType::Text)]), &now).is_err());
        // Nothing tells: the column has no values here, and holds such ones.
        assert_eq!(check_header(&header(&[("vc", CqlType::Int)]), &now), Ok(()));
        assert_eq!(check_header(&header(&[("vd", CqlType::Int)]), &now), Ok(()));
    }

    #[test]
    fn types_that_were_altered_are_known() {
        let list = |ty: CqlType, multi_cell| CqlType::list(ty, multi_cell);
        for (was, is, may) in [
            (CqlType::Ascii, CqlType::Text, true),
            (CqlType::Text, CqlType::Ascii, false),
            (CqlType::BigInt, CqlType::Timestamp, true),
            (CqlType::Int, CqlType::BigInt, false),
            (CqlType::TimeUuid, CqlType::Uuid, true),
            (CqlType::Counter, CqlType::Blob, false),
            (CqlType::Boolean, CqlType::Blob, true),
            (list(CqlType::Int, false), CqlType::Blob, true),
            (list(CqlType::Int, true), CqlType::Blob, false),
            (list(CqlType::Int, true), list(CqlType::Varint, true), true),
            (CqlType::Custom("x".into()), CqlType::Text, false),
        ] {
            assert_eq!(may_have_become(&was, &is), may, "{was} to {is}");
        }
    }
}
