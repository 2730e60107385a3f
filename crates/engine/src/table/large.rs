//! Large partitions, which the log tells of when they are written, in the words of Cassandra's guardrails
//! `partition_size` and `partition_tombstones`.

use super::FileContext;
use crate::options::PartitionLimits;
use model::TableSchema;
use sstable::{LargeFrom, LargePartition, SsTableMeta};

impl PartitionLimits {
    /// From which size on one of them is passed.
    pub(crate) fn least(self) -> LargeFrom {
        // What is passed is the least size above it.
        let above = |limits: [Option<u64>; 2]| {
            limits.into_iter().flatten().min().map_or(u64::MAX, |limit| limit.saturating_add(1))
        };
        LargeFrom {
            bytes: above([self.bytes_warn, self.bytes_fail]),
            tombstones: above([self.tombstones_warn, self.tombstones_fail]),
        }
    }

    /// What is to be said of a partition that is called `what`: of its size, and of its tombstones.
    fn complaints(self, what: &str, partition: &LargePartition) -> Vec<Complaint> {
        let LargePartition { bytes, tombstones, .. } = *partition;
        let of_size = Complaint::of(bytes, self.bytes_warn, self.bytes_fail, |kind, limit| {
            format!(
                "Guardrail partition_size violated: Partition {what} has size {bytes}, this exceeds the {kind} threshold of \
                 {limit}. Too large partitions can cause performance problems."
            )
        });
        let of_tombstones = Complaint::of(
            tombstones,
            self.tombstones_warn,
            self.tombstones_fail,
            |kind, limit| {
                format!(
                    "Guardrail partition_tombstones violated: Partition {what} has {tombstones} tombstones, this exceeds \
                     the {kind} threshold of {limit}. Partitions with too many tombstones can cause performance problems."
                )
            },
        );
        of_size.into_iter().chain(of_tombstones).collect()
    }
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
struct Complaint {
    text: String,
    is_error: bool,
}

impl Complaint {
    fn of(
        value: u64,
        warn: Option<u64>,
        fail: Option<u64>,
        text: impl Fn(&str, u64) -> String,
    ) -> Option<Complaint> {
        let passed = |limit: Option<u64>| limit.filter(|limit| value > *limit);
        match (passed(fail), passed(warn)) {
            (Some(limit), _) => Some(Complaint { text: text("failure", limit), is_error: true }),
            (None, Some(limit)) => Some(Complaint { text: text("warning", limit), is_error: false }),
            (None, None) => None,
        }
    }
}

impl FileContext {
    /// Tells the log of the large partitions of an SSTable that was just written. Nothing is refused.
    pub(crate) fn tell_of_large(&self, schema: &TableSchema, written: &SsTableMeta) {
        for partition in &written.large.first {
            let key = schema.partition_key_type().to_text(&partition.key.key.0);
            let what = format!("{}.{}:{key} on sstable {}", schema.keyspace, schema.name, written.descriptor);
            for Complaint { text, is_error } in self.partition_limits.complaints(&what, partition) {
                match is_error {
                    true => tracing::error!("{text}"),
                    false => tracing::warn!("{text}"),
                }
            }
        }
        if written.large.others > 0 {
            let (keyspace, table, others) = (&schema.keyspace, &schema.name, written.large.others);
            tracing::warn!(keyspace, table, others, "more partitions of an SSTable are as large");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DecoratedKey, PartitionKey};

    #[test]
    fn what_passes_a_limit_is_told_of_once() {
        let limits = PartitionLimits {
            bytes_warn: Some(100),
            bytes_fail: Some(200),
            tombstones_warn: Some(5),
            tombstones_fail: None,
        };
        assert_eq!(limits.least(), LargeFrom { bytes: 101, tombstones: 6 });
        assert_eq!(PartitionLimits::default().least(), LargeFrom::NEVER);
        let said = |bytes, tombstones| {
            let key = DecoratedKey::new(PartitionKey(b"k".to_vec().into()));
            let complaints = limits.complaints("k.t:1", &LargePartition { key, bytes, tombstones });
            complaints.into_iter().map(|c| (c.is_error, c.text)).collect::<Vec<_>>()
        };
        assert_eq!(said(100, 5), []);
        let size = "Guardrail partition_size violated: Partition k.t:1 has size 101, this exceeds the warning threshold of \
                    100. Too large partitions can cause performance problems.";
        assert_eq!(said(101, 5), [(false, size.to_owned())]);
        let both = said(201, 6);
        assert!(both[0].0 && both[0].1.contains("has size 201, this exceeds the failure threshold of 200."));
        assert!(
            !both[1].0
                && both[1].1.contains("k.t:1 has 6 tombstones, this exceeds the warning threshold of 5.")
        );
        assert_eq!(both.len(), 2);
    }
}
