//! What the configuration says of new tables. `conformance/cql/latest` has the rest.

use super::*;
use model::schema::Release;

#[test]
fn defaults_are_those_of_the_release_and_of_a_schema_from_elsewhere() {
    let compaction =
        TableDefaults::parse_compaction(&[("class".to_owned(), "UnifiedCompactionStrategy".to_owned())])
            .unwrap();
    let configured = TableDefaults { compaction: Some(compaction), memtables: Some(vec!["trie".to_owned()]) };
    let foreign = TableDefaults { memtables: None, ..TableDefaults::default() };
    let table = |release: Release, tables: &TableDefaults, with: &str| {
        let schema = Arc::new(Schema { release, ..Schema::clone(&first_schema()) });
        let ctx = DdlContext { keyspace: Some(KEYSPACE), tables, ..context(&schema) };
        let cql = format!("CREATE TABLE t (k int PRIMARY KEY) WITH comment = ''{with}");
        let outcome = apply(&parse_statement(&cql).unwrap().statement, &ctx)?;
        let options = outcome.unwrap().schema.table(KEYSPACE, "t").unwrap().options.clone();
        Ok::<_, crate::CqlError>((options.compaction.short_class().to_owned(), options.memtable))
    };
    let named = |class: &str, memtable: Option<&str>| (class.to_owned(), memtable.map(str::to_owned));
    assert_eq!(table(Release::V5_0, &configured, "").unwrap(), named("UnifiedCompactionStrategy", None));
    // It has no such strategy, and no such setting.
    assert_eq!(table(Release::V4_1, &configured, "").unwrap(), named("SizeTieredCompactionStrategy", None));
    let of_trie = " AND memtable = 'trie'";
    assert_eq!(table(Release::V4_1, &configured, of_trie).unwrap().1.as_deref(), Some("trie"));
    assert!(table(Release::V4_0, &configured, of_trie).is_err());
    assert!(table(Release::V5_0, &TableDefaults::default(), of_trie).is_err());
    assert_eq!(table(Release::V5_0, &foreign, of_trie).unwrap().1.as_deref(), Some("trie"));
}
