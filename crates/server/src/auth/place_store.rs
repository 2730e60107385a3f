//! The tables of `system_auth` that say where roles may come in: `network_permissions`, `cidr_permissions`
//! and `cidr_groups`.
//!
//! ```text
//! frozen<set<text>>                     count | (length | text)*
//! frozen<set<tuple<inet, smallint>>>    count | (length | 4 or 16 | address | 2 | bits)*
//! ```
//! Counts and lengths are 32 bits, big-endian.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::Mutation;

use super::cidr::Cidr;
use super::resource::Resource;
use super::store::{Result, Store};

const NETWORKS: &str = "network_permissions";

/// The key of a role in `network_permissions`: unlike other tables it has the resource's name, `roles/bob`.
fn network_key(role: &str) -> String {
    Resource::Role(role.to_owned()).name()
}

/// Takes a length and so many bytes from the front.
fn value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let (value, behind) = behind.split_at_checked(usize::try_from(i32::from_be_bytes(*length)).ok()?)?;
    *rest = behind;
    Some(value)
}

/// The elements of a frozen set; of damaged bytes those before the damage.
fn elements(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (count, mut rest) = match bytes.split_first_chunk::<4>() {
        Some((count, rest)) => (i32::from_be_bytes(*count), rest),
        None => (0, bytes),
    };
    (0..count).map_while(move |_| value(&mut rest))
}

fn put(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
    out.extend_from_slice(value);
}

fn set_of<'a>(count: usize, elements: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes().to_vec();
    elements.for_each(|element| put(&mut out, element));
    out
}

fn names_of(bytes: &[u8]) -> BTreeSet<String> {
    elements(bytes).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn set_of_names(names: &BTreeSet<String>) -> Vec<u8> {
    set_of(names.len(), names.iter().map(String::as_bytes))
}

/// The network of a tuple; `None` for one that cannot be.
fn cidr_of(mut tuple: &[u8]) -> Option<Cidr> {
    let address = value(&mut tuple)?;
    let bits = i16::from_be_bytes(value(&mut tuple)?.try_into().ok()?);
    let address = match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
        (Ok(address), _) => IpAddr::from(address),
        (_, Ok(address)) => IpAddr::from(address),
        _ => return None,
    };
    Cidr::new(address, bits)
}

fn set_of_cidrs(cidrs: &BTreeSet<Cidr>) -> Vec<u8> {
    let mut tuples: Vec<(Vec<u8>, u8)> = cidrs
        .iter()
        .map(|cidr| match cidr.parts() {
            (IpAddr::V4(address), bits) => (address.octets().to_vec(), bits),
            (IpAddr::V6(address), bits) => (address.octets().to_vec(), bits),
        })
        .collect();
    // As the types of the tuple order them.
    tuples.sort();
    let written: Vec<Vec<u8>> = tuples
        .iter()
        .map(|(address, bits)| {
            let mut tuple = Vec::new();
            put(&mut tuple, address);
            put(&mut tuple, &i16::from(*bits).to_be_bytes());
            tuple
        })
        .collect();
    set_of(written.len(), written.iter().map(Vec::as_slice))
}

impl Store {
    /// The data centers that a role is held to; none where it is not.
    pub(crate) async fn datacenters_of(&self, role: &str) -> Result<BTreeSet<String>> {
        let rows = self.rows(NETWORKS, Some(&network_key(role))).await?;
        Ok(rows.first().and_then(|row| row.value("dcs")).map(|set| names_of(set)).unwrap_or_default())
    }

    /// The CIDR groups that a role is held to; none where it is not.
    pub(crate) async fn cidr_groups_of(&self, role: &str) -> Result<BTreeSet<String>> {
        if !self.has_cidr_permissions() {
            return Ok(BTreeSet::new());
        }
        let rows = self.rows("cidr_permissions", Some(role)).await?;
        Ok(rows.first().and_then(|row| row.value("cidr_groups")).map(|set| names_of(set)).unwrap_or_default())
    }

    /// Whether there is a table for what [`Store::set_cidr_groups_of`] writes; older releases have none.
    pub(super) fn has_cidr_permissions(&self) -> bool {
        self.table("cidr_permissions").is_ok()
    }

    /// Holds a role to data centers, or to none where there are no names.
    pub(crate) fn set_datacenters(&self, role: &str, names: &BTreeSet<String>) -> Result<Mutation> {
        Ok(self.change(NETWORKS, &network_key(role), None)?.set("dcs", set_of_names(names)).done())
    }

    /// Forgets the data centers of a role.
    pub(super) fn drop_datacenters(&self, role: &str) -> Result<Mutation> {
        Ok(self.change(NETWORKS, &network_key(role), None)?.partition_deleted())
    }

    /// Holds a role to CIDR groups, or to none where there are no names.
    pub(crate) fn set_cidr_groups_of(&self, role: &str, names: &BTreeSet<String>) -> Result<Mutation> {
        Ok(self.change("cidr_permissions", role, None)?.set("cidr_groups", set_of_names(names)).done())
    }

    /// The CIDR groups with their networks, by name. Networks that cannot be are left out.
    pub(crate) async fn cidr_groups(&self) -> Result<Vec<(String, Vec<Cidr>)>> {
        if self.table("cidr_groups").is_err() {
            return Ok(Vec::new());
        }
        let rows = self.rows("cidr_groups", None).await?;
        let cidrs = |set: &[u8]| -> Vec<Cidr> { elements(set).filter_map(cidr_of).collect() };
        let group = |row: &super::store::StoredRow| {
            (row.key().to_owned(), row.value("cidrs").map(|set| cidrs(set)).unwrap_or_default())
        };
        let mut groups: Vec<_> = rows.iter().map(group).collect();
        groups.sort();
        Ok(groups)
    }

    /// Makes a CIDR group, or gives it other networks.
    pub(crate) fn set_cidr_group(&self, name: &str, cidrs: &BTreeSet<Cidr>) -> Result<Mutation> {
        Ok(self.change("cidr_groups", name, None)?.set("cidrs", set_of_cidrs(cidrs)).done())
    }

    /// Removes a CIDR group.
    pub(crate) fn drop_cidr_group(&self, name: &str) -> Result<Mutation> {
        Ok(self.change("cidr_groups", name, None)?.partition_deleted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_back_as_they_went() {
        let names: BTreeSet<String> = ["b", "a", ""].map(str::to_owned).into();
        assert_eq!(names_of(&set_of_names(&names)), names);
        assert_eq!(set_of_names(&BTreeSet::new()), [0; 4]);
        let cidrs: BTreeSet<Cidr> =
            ["10.0.0.0/8", "9.1.2.3/32", "2001::/16"].map(|text| Cidr::parse(text).unwrap()).into();
        let bytes = set_of_cidrs(&cidrs);
        assert_eq!(elements(&bytes).filter_map(cidr_of).collect::<BTreeSet<_>>(), cidrs);
        assert_eq!(bytes[..18], [0, 0, 0, 3, 0, 0, 0, 14, 0, 0, 0, 4, 9, 1, 2, 3, 0, 0]);
    }

    #[test]
    fn damaged_sets_do_no_harm() {
        let bytes = set_of_cidrs(&["10.0.0.0/8"].map(|text| Cidr::parse(text).unwrap()).into());
        for end in 0..bytes.len() {
            assert_eq!(elements(&bytes[..end]).filter_map(cidr_of).count(), 0, "{end}");
        }
        for wrong in [&[0xff; 40][..], &[0, 0, 0, 9], &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 7]] {
            assert!(names_of(wrong).len() <= 1 && elements(wrong).filter_map(cidr_of).count() == 0);
        }
    }
}
