//! Files are read in several ways, and hold the same.

use super::recorded::{Fixture, same, sets, tables_of};
use crate::{FileId, FilePart, PageSource, Uncached};
use bytes::Bytes;
use env::fs::Access;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use partition::{Event, Fragment, PartitionStream, ReadContext, ReadError};
use std::sync::Arc;

/// No cache in front of files that are read in one way.
#[derive(Debug)]
struct By(Access);

impl PageSource for By {
    fn page(
        &self,
        file: FileId,
        page: u64,
        context: &ReadContext,
        load: &mut dyn FnMut() -> Result<Bytes, ReadError>,
    ) -> Result<Bytes, ReadError> {
        Uncached.page(file, page, context, load)
    }

    fn access(&self, _: FilePart) -> Access {
        self.0
    }

    fn keeps(&self, _: FilePart, _: &ReadContext) -> bool {
        false
    }
}

#[test]
fn every_access_reads_the_recorded_rows_and_is_counted() {
    let (mut direct, mut more) = (0, 0);
    for (set, name) in sets().iter().flat_map(|set| tables_of(set).into_iter().map(move |t| (set, t))) {
        let fixture = Fixture::load(set, &name);
        let mut taken = Vec::new();
        for access in [Access::Buffered, Access::Direct, Access::Mapped] {
            let pages: Arc<dyn PageSource> = Arc::new(By(access));
            let sstables = fixture.open_on_disk(&pages);
            let table = fixture.table(&sstables);
            let rows = fixture.select(&sstables, &fixture.command(&table)).unwrap();
            assert!(same(&rows, &fixture.recorded.rows), "{} {access:?}", fixture.name);
            for sstable in &sstables {
                // Some file systems have no direct reads.
                let found = sstable.data_access();
                assert!(found == access || access == Access::Direct, "{found:?}");
                let context = ReadContext::default();
                let columns = ColumnSelection::all(&table);
                let mut stream = sstable
                    .scan(&KeyRange::FULL, &ClusteringFilter::all(), &columns, &table, &context)
                    .unwrap();
                let mut fragment = Fragment::default();
                while stream.next(&mut fragment).unwrap() != Event::End {}
                drop(stream);
                let cost = context.cost.snapshot();
                let expected = match found {
                    Access::Buffered => (0, 0),
                    Access::Direct => (cost.ios, 0),
                    Access::Mapped => (0, cost.ios),
                };
                assert!(cost.ios > 0 && cost.ios <= cost.chunk_misses + cost.index_page_misses);
                assert_eq!((cost.direct_ios, cost.mapped_ios), expected, "{} {access:?}", fixture.name);
                taken.push(cost.disk_bytes);
                direct += u64::from(found == Access::Direct);
            }
        }
        // What direct reads take counts in whole blocks.
        let [buffered, blocks] = [0, 1].map(|nth| &taken[nth * taken.len() / 3..][..taken.len() / 3]);
        assert!(
            buffered.iter().zip(blocks).all(|(bytes, blocks)| bytes <= blocks),
            "{} {taken:?}",
            fixture.name
        );
        more += blocks.iter().sum::<u64>() - buffered.iter().sum::<u64>();
    }
    assert_eq!(more > 0, direct > 0);
}
