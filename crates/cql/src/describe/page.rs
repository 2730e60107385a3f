//! Pages of DESCRIBE.
//!
//! The answer is computed anew for each page. So a paging state says where to go on and in which schema. In
//! another schema the rows before may have moved. It is Cassandra's (`DescribeStatement`), where it takes the
//! place of a key, so that in a ring any node goes on:
//!
//! ```text
//! | u16 1 | u16 n, n bytes release | 16 bytes schema version | i64 row |
//! ```

use super::DescribeRows;
use crate::error::{Result, bail};
use uuid::Uuid;

const VERSION: u16 = 1;

impl DescribeRows {
    /// The page that begins where `state` says (the first one without), of at most `page_size` rows, and the
    /// state of the next page if there is one. `schema_version` is that of the schema that was described,
    /// `release` that of the node.
    pub fn page(
        mut self,
        state: Option<&[u8]>,
        page_size: Option<u32>,
        schema_version: Uuid,
        release: &str,
    ) -> Result<(DescribeRows, Option<Vec<u8>>)> {
        let start = match state {
            None => 0,
            Some(state) => start_of(state, schema_version, release)?,
        };
        let total = self.rows.len();
        let len = page_size.filter(|size| *size > 0).map_or(total, |size| size as usize);
        self.rows = self.rows.into_iter().skip(start).take(len).collect();
        let end = start.saturating_add(len);
        let next = (end < total).then(|| state_of(end, schema_version, release));
        Ok((self, next))
    }
}

fn state_of(row: usize, schema_version: Uuid, release: &str) -> Vec<u8> {
    let mut out = VERSION.to_be_bytes().to_vec();
    out.extend_from_slice(&(release.len() as u16).to_be_bytes());
    out.extend_from_slice(release.as_bytes());
    out.extend_from_slice(schema_version.as_bytes());
    out.extend_from_slice(&(row as u64).to_be_bytes());
    out
}

fn start_of(state: &[u8], schema_version: Uuid, release: &str) -> Result<usize> {
    let Some((version, rest)) = state.split_first_chunk::<2>() else { bail!("Invalid paging state.") };
    if u16::from_be_bytes(*version) != VERSION {
        bail!("Incompatible paging state");
    }
    let parts = rest.split_first_chunk::<2>().and_then(|(len, rest)| {
        let (release, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        let (schema, row) = rest.split_first_chunk::<16>()?;
        let row = i64::from_be_bytes(row.try_into().ok()?);
        Some((String::from_utf8_lossy(release), Uuid::from_bytes(*schema), usize::try_from(row).ok()?))
    });
    let Some((found, schema, row)) = parts else { bail!("Invalid paging state.") };
    if found != release {
        bail!(
            "The server version of the paging state {found} is different from the one of the server {release}"
        );
    }
    if schema != schema_version {
        bail!(
            "The schema has changed since the previous page of the DESCRIBE statement result. Please retry the \
             DESCRIBE statement."
        );
    }
    Ok(row)
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
            let (page, next) = rows(5).page(state.as_deref(), Some(2), version, "5.0.5").unwrap();
            seen.extend(page.rows);
            pages += 1;
            match next {
                Some(next) => state = Some(next),
                None => break,
            }
        }
        assert_eq!((seen, pages), (rows(5).rows, 3));
        assert_eq!(rows(4).page(None, Some(4), version, "5.0.5").unwrap().1, None);
        assert_eq!(rows(4).page(None, None, version, "5.0.5").unwrap().0, rows(4));
    }

    #[test]
    fn a_state_of_another_schema_or_of_nothing_is_refused() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (_, next) = rows(3).page(None, Some(1), one, "5.0.5").unwrap();
        let next = next.unwrap();
        let refusal = |state: &[u8], schema, release| {
            rows(3).page(Some(state), Some(1), schema, release).unwrap_err().to_string()
        };
        assert!(refusal(&next, other, "5.0.5").starts_with("The schema has changed"));
        let release =
            "The server version of the paging state 5.0.5 is different from the one of the server 4.1.10";
        assert_eq!(refusal(&next, one, "4.1.10"), release);
        assert_eq!(refusal(&[9; 33], one, "5.0.5"), "Incompatible paging state");
        let negative = [&next[..next.len() - 8], &[0xff; 8]].concat();
        for broken in
            [&next[..next.len() - 1], &[&next[..], &[0]].concat(), &[], &[0, 1, 0xff, 0xff], &negative]
        {
            assert_eq!(refusal(broken, one, "5.0.5"), "Invalid paging state.", "{broken:?}");
        }
    }
}
