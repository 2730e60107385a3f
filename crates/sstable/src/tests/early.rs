//! Reading an SSTable while it is being written.

use super::round_trip::{random_compression, random_filter};
use super::support::*;
use crate::{Descriptor, PageSource, SsTable, SsTableWriter, Version};
use model::TableSchema;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use std::path::Path;
use std::sync::Arc;

/// Reads every partition that should be there, and keys that should not.
fn check_all(sstable: &Arc<SsTable>, table: &Arc<TableSchema>, written: &[&Partition], rng: &mut Rng) {
    for expected in written {
        assert!(sstable.may_contain(&expected.key));
        let filter = random_filter(rng, table);
        let mut stream =
            sstable.read(&expected.key, &filter, &all(table), table, &context()).unwrap().unwrap();
        let found = collect(&mut stream, table, filter.is_reversed()).unwrap();
        check(table, expected, &filter, &found[0], rng);
    }
    for i in 0..40 {
        let absent = key(i * 3 + 1);
        assert!(
            sstable
                .read(&absent, &ClusteringFilter::all(), &all(table), table, &context())
                .unwrap()
                .is_none()
        );
    }
    let mut scan =
        sstable.scan(&KeyRange::FULL, &ClusteringFilter::all(), &all(table), table, &context()).unwrap();
    let found = collect(&mut scan, table, false).unwrap();
    let whole: Vec<Partition> = written.iter().map(|p| (*p).clone()).collect();
    assert_eq!(found, whole);
}

/// What a read of one column of all rows of the partition looks at.
fn pages_of_one_column(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    partition: &Partition,
) -> (u64, u64) {
    let column = table.regular_columns()[1].id;
    let (columns, context) = (ColumnSelection::of(vec![column]), context());
    let filter = ClusteringFilter::all();
    let mut stream = sstable.read(&partition.key, &filter, &columns, table, &context).unwrap().unwrap();
    let found = collect(&mut stream, table, false).unwrap();
    for (found, expected) in found[0].items.iter().zip(&partition.items) {
        let (Item::Row(found), Item::Row(expected)) = (found, expected) else { panic!("rows only") };
        assert_eq!(found.cells_of(column), expected.cells_of(column));
    }
    let cost = context.cost.snapshot();
    (cost.index_page_hits + cost.index_page_misses, cost.chunk_hits + cost.chunk_misses)
}

#[test]
fn long_values_are_stepped_over_in_what_is_written_so_far() {
    let table = wide_table(12);
    let mut partitions = wide_partitions(&table, 20, 3, 20 << 10);
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    for version in [Version::NB, Version::DA] {
        let fs = memory();
        fs.create_dir_all(Path::new(DIRECTORY)).unwrap();
        let descriptor = Descriptor { version, ..descriptor(1) };
        let options = options(&partitions, None, 64 << 10);
        let mut writer = SsTableWriter::new(fs.clone(), descriptor.clone(), table.clone(), options).unwrap();
        let pages: Arc<dyn PageSource> = Arc::new(Kept::default());
        let (first, rest) = partitions.split_first().unwrap();
        first.append_to(&mut writer);
        // The page that has the first partition's long values is not full.
        let early = Arc::new(writer.open_early(7, &pages).unwrap().unwrap());
        let without = pages_of_one_column(&early, &table, first);
        rest.iter().for_each(|partition| partition.append_to(&mut writer));
        let early = Arc::new(writer.open_early(7, &pages).unwrap().unwrap());
        let with = pages_of_one_column(&early, &table, first);
        assert!(with.1 < without.1, "{version}: {with:?}, {without:?}");
        writer.finish().unwrap();
        let finished = Arc::new(SsTable::open(fs.as_ref(), &descriptor, 7, pages).unwrap());
        let of_finished = pages_of_one_column(&finished, &table, first);
        // The finished one knows more of where its keys are.
        assert!(of_finished.0 <= with.0, "{version}: {of_finished:?}, {with:?}");
        assert_eq!(of_finished.1, with.1, "{version}");
        for partition in rest {
            let (early, finished) =
                [&early, &finished].map(|s| pages_of_one_column(s, &table, partition)).into();
            assert!(early.1 >= finished.1, "{version}: {early:?}, {finished:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_written_so_far_is_read_and_its_pages_are_those_of_the_finished_sstable(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let table = random_table(rng);
        let rows = [3, 30, 200][rng.below(3) as usize];
        let count = 1 + rng.below(40);
        let partitions = random_partitions(rng, &table, count, rows);
        let fs = memory();
        fs.create_dir_all(Path::new(DIRECTORY)).unwrap();
        let block = [1, 50, 400, 64 << 10][rng.below(4) as usize];
        let options = options(&partitions, random_compression(rng), block);
        let descriptor = Descriptor { version: random_version(rng), ..descriptor(1) };
        let mut writer = SsTableWriter::new(fs.clone(), descriptor.clone(), table.clone(), options).unwrap();
        let kept = Arc::new(Kept::default());
        let pages: Arc<dyn PageSource> = kept.clone();
        let mut written: Vec<&Partition> = Vec::new();
        let mut openings = Vec::new();
        for partition in &partitions {
            partition.append_to(&mut writer);
            written.extend((!partition.is_empty()).then_some(partition));
            if rng.chance(20) {
                let early = writer.open_early(7, &pages).unwrap().map(Arc::new);
                prop_assert_eq!(early.is_some(), !written.is_empty());
                if let Some(early) = early {
                    prop_assert_eq!(early.last_key(), &written[written.len() - 1].key);
                    check_all(&early, &table, &written, rng);
                    let known: std::collections::HashSet<_> = early.pages().collect();
                    prop_assert_eq!(known.len() as u64, early.page_count());
                    prop_assert!(kept.pages().all(|page| known.contains(&page)));
                    openings.push((early, written.len()));
                }
            }
        }
        if written.is_empty() {
            return Ok(());
        }
        writer.finish().unwrap();
        let finished = Arc::new(SsTable::open(fs.as_ref(), &descriptor, 7, Arc::clone(&pages)).unwrap());
        let fresh = SsTable::open(fs.as_ref(), &descriptor, 8, pages).unwrap();
        check_all(&finished, &table, &written, rng);
        check_all(&Arc::new(fresh), &table, &written, rng);
        // What was opened early stays as it was.
        for (early, until) in &openings {
            check_all(early, &table, &written[..*until], rng);
        }
        let pages_of = |number| kept.0.lock().unwrap().iter()
            .filter(|((file, _), _)| file.sstable == number)
            .map(|((file, page), bytes)| ((file.part, *page), bytes.clone()))
            .collect::<std::collections::HashMap<_, _>>();
        let (early, fresh) = (pages_of(7), pages_of(8));
        prop_assert!(early.iter().all(|(at, bytes)| fresh.get(at).is_none_or(|fresh| fresh == bytes)));
        // Whoever lets the pages of the finished one go misses none.
        let known: std::collections::HashSet<_> = finished.pages().collect();
        for page in kept.pages().filter(|(file, _)| file.sstable == 7) {
            prop_assert!(known.contains(&page), "{:?}", page);
        }
    }
}
