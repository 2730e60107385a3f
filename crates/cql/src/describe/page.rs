//! Pages of DESCRIBE.
//!
//! The answer is computed anew for each page. So a paging state says where to go on and in which schema. In
//! another schema the rows before may have moved.
//!
//! ```text
//! byte  0         1                 17              21
//!       | version | schema version  | row, u32 BE   |
//! ```

use super::DescribeRows;
use crate::error::{Result, bail};
use uuid::Uuid;

const VERSION: u8 = 1;

impl DescribeRows {
    /// The page that begins where `state` says (the first one without), of at most `page_size` rows, and the
    /// state of the next page if there is one. `schema_version` is that of the schema that was described.
    pub fn page(
        mut self,
        state: Option<&[u8]>,
        page_size: Option<u32>,
        schema_version: Uuid,
    ) -> Result<(DescribeRows, Option<Vec<u8>>)> {
        let start = match state {
            None => 0,
            Some(state) => start_of(state, schema_version)?,
        };
        let total = self.rows.len();
        let len = page_size.filter(|size| *size > 0).map_or(total, |size| size as usize);
        self.rows = self.rows.into_iter().skip(start).take(len).collect();
        let end = start.saturating_add(len);
        let next = match u32::try_from(end) {
            Ok(end) if (end as usize) < total => {
                Some([&[VERSION], schema_version.as_bytes().as_slice(), &end.to_be_bytes()].concat())
            }
            _ => None,
        };
        Ok((self, next))
    }
}

fn start_of(state: &[u8], schema_version: Uuid) -> Result<usize> {
    let parts = state.split_first_chunk::<1>().and_then(|(version, rest)| {
        let (schema, row) = rest.split_first_chunk::<16>()?;
        Some((*version, Uuid::from_bytes(*schema), u32::from_be_bytes(row.try_into().ok()?)))
    });
    match parts {
        Some(([VERSION], schema, row)) if schema == schema_version => Ok(row as usize),
        Some(([VERSION], ..)) => bail!(
            "The schema has changed since the previous page of the DESCRIBE statement result. Please retry the \
             DESCRIBE statement."
        ),
        _ => bail!("Incompatible paging state"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn rows(count: u8) -> DescribeRows {
        let rows = (0..count).map(|n| vec![Some(Bytes::copy_from_slice(&[n]))]).collect();
        DescribeRows { columns: Vec::new(), rows }
    }

    #[test]
    fn pages_follow_each_other_and_end() {
        let version = Uuid::from_u128(7);
        let (mut seen, mut state, mut pages) = (Vec::new(), None, 0);
        loop {
            let (page, next) = rows(5).page(state.as_deref(), Some(2), version).unwrap();
            seen.extend(page.rows);
            pages += 1;
            match next {
                Some(next) => state = Some(next),
                None => break,
            }
        }
        assert_eq!((seen, pages), (rows(5).rows, 3));
        assert_eq!(rows(4).page(None, Some(4), version).unwrap().1, None);
        assert_eq!(rows(4).page(None, None, version).unwrap().0, rows(4));
    }

    #[test]
    fn a_state_of_another_schema_or_of_nothing_is_refused() {
        let (_, next) = rows(3).page(None, Some(1), Uuid::from_u128(1)).unwrap();
        let next = next.unwrap();
        let changed = rows(3).page(Some(&next), Some(1), Uuid::from_u128(2)).unwrap_err();
        assert!(changed.to_string().starts_with("The schema has changed"), "{changed}");
        for broken in [&next[..20], &[], &[9; 21]] {
            assert!(rows(3).page(Some(broken), Some(1), Uuid::from_u128(1)).is_err());
        }
    }
}
