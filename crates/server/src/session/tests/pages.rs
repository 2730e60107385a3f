//! Results in pages.

use super::*;

/// Reads everything in pages; `between` runs after each page.
async fn read_pages(client: &mut Client, statement: &str, page_size: i32) -> Vec<Rows> {
    let mut pages = Vec::new();
    let mut paging_state = None;
    loop {
        let page = QueryParams { page_size: Some(page_size), paging_state, ..params() };
        let found = rows(client.call(query(statement, page)).await);
        paging_state = found.paging_state.clone();
        pages.push(found);
        if paging_state.is_none() {
            return pages;
        }
    }
}

#[test]
fn pages_join_to_the_whole_result_in_both_directions_and_over_partitions() {
    run(async {
        let db = Db::open(&Env::for_test(10)).await;
        for version in [ProtocolVersion::V3, ProtocolVersion::V5] {
            let mut client = db.client(version).await;
            if version == ProtocolVersion::V3 {
                create(&mut client).await;
                for c in 0..25 {
                    for k in [1, 2] {
                        let insert = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, 'x')");
                        cql(&mut client, &insert).await;
                    }
                }
            }
            let up: Vec<i32> = (0..25).collect();
            let down: Vec<i32> = up.iter().rev().copied().collect();
            let one = "SELECT c FROM ks.t WHERE k = 1";
            for (statement, expected) in [
                (one.to_owned(), up.clone()),
                (format!("{one} ORDER BY c DESC"), down),
                (format!("{one} LIMIT 17"), up[..17].to_vec()),
                ("SELECT c FROM ks.t WHERE k IN (1, 2)".to_owned(), [up.clone(), up.clone()].concat()),
                ("SELECT c FROM ks.t".to_owned(), [up.clone(), up.clone()].concat()),
            ] {
                let pages = read_pages(&mut client, &statement, 10).await;
                let joined: Vec<i32> = pages.iter().flat_map(|page| ints(page, 0)).collect();
                assert_eq!(joined, expected, "{version} {statement}");
                assert!(pages.iter().all(|page| page.rows.len() <= 10));
            }
        }
    });
}

#[test]
fn a_page_continues_after_a_restart() {
    run(async {
        let env = Env::for_test(11);
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        for c in 0..8 {
            cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 'x')")).await;
        }
        let statement = "SELECT c FROM ks.t WHERE k = 1";
        let first = QueryParams { page_size: Some(5), ..params() };
        let page = rows(client.call(query(statement, first)).await);
        db.stop().await;
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        let second = QueryParams { page_size: Some(5), paging_state: page.paging_state, ..params() };
        assert_eq!(ints(&rows(client.call(query(statement, second)).await), 0), [5, 6, 7]);
    });
}

#[test]
fn a_paging_state_that_is_none_is_a_protocol_error() {
    run(async {
        let db = Db::open(&Env::for_test(12)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        for state in [&b"nonsense"[..], &[0, 1, 0, 200], &[]] {
            let paging_state = Some(Bytes::copy_from_slice(state));
            let wrong = QueryParams { page_size: Some(5), paging_state, ..params() };
            let (kind, message) = error(client.call(query("SELECT * FROM ks.t", wrong)).await);
            assert_eq!((kind, message.as_str()), (ErrorKind::Protocol, "Invalid value for the paging state"));
        }
    });
}

#[test]
fn large_values_cross_many_segments_and_bound_pages() {
    run(async {
        let db = Db::open(&Env::for_test(13)).await;
        let compressed = Some(Compression::Lz4);
        let mut client = Client::start(db.server.local_addr(), ProtocolVersion::V5, compressed).await;
        create(&mut client).await;
        let large: String =
            (0..1_000_000u32).map(|i| char::from(b'a' + (i.wrapping_mul(i) % 23) as u8)).collect();
        for c in 0..5 {
            let insert =
                query("INSERT INTO ks.t (k, c, v) VALUES (1, ?, ?)", with_values(vec![int(c), text(&large)]));
            assert_eq!(result(client.call(insert).await), ResultBody::Void);
        }
        let whole = select(&mut client, "SELECT v FROM ks.t WHERE k = 1").await;
        assert!(
            whole.rows.len() == 5 && whole.rows.iter().all(|row| row[0].as_deref() == Some(large.as_bytes()))
        );
        let pages = read_pages(&mut client, "SELECT c, v FROM ks.t WHERE k = 1", 1_000).await;
        let joined: Vec<i32> = pages.iter().flat_map(|page| ints(page, 0)).collect();
        assert_eq!(joined, [0, 1, 2, 3, 4]);
        assert!(pages.len() >= 2, "a page ends before it holds everything");
    });
}

#[test]
fn deleted_rows_make_pages_short_and_the_result_whole() {
    run(async {
        let few = |config: &mut Config| config.settings.tombstone_failure_threshold = 50;
        let db = Db::open_with(&Env::for_test(14), few).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        for c in 0..400 {
            let statement = match c % 100 {
                99 => format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 'x')"),
                _ => format!("DELETE FROM ks.t WHERE k = 1 AND c = {c}"),
            };
            cql(&mut client, &statement).await;
        }
        let pages = read_pages(&mut client, "SELECT c FROM ks.t WHERE k = 1", 1_000).await;
        let joined: Vec<i32> = pages.iter().flat_map(|page| ints(page, 0)).collect();
        assert_eq!(joined, [99, 199, 299, 399]);
        assert!(pages.len() >= 7, "{} pages", pages.len());
    });
}

#[test]
fn aggregates_read_all_pages_and_warn() {
    run(async {
        let db = Db::open(&Env::for_test(22)).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        create(&mut client).await;
        for k in 0..30 {
            cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 'x')")).await;
        }
        let paged = QueryParams { page_size: Some(1), ..params() };
        let request = query("SELECT count(*) FROM ks.t", paged);
        let answer = client.exchange(Message { tracing: false, payload: None, request }).await;
        assert_eq!(answer.extras.warnings, ["Aggregation query used without partition key"]);
        let found = rows(answer.response);
        assert_eq!(found.rows, [[Some(Bytes::copy_from_slice(&30i64.to_be_bytes()))]]);
        assert_eq!(found.paging_state, None);
    });
}

#[test]
fn groups_come_in_pages() {
    run(async {
        let db = Db::open(&Env::for_test(24)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        for c in 0..20 {
            cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES ({}, {c}, 'x')", c % 5)).await;
        }
        let whole = ints(&select(&mut client, "SELECT k, count(*) FROM ks.t GROUP BY k").await, 0);
        assert_eq!(whole.len(), 5);
        for (limit, expected) in [("", 5), ("LIMIT 4", 4), ("LIMIT 2", 2)] {
            let statement = format!("SELECT k, count(*) FROM ks.t GROUP BY k {limit}");
            let pages = read_pages(&mut client, &statement, 2).await;
            let joined: Vec<i32> = pages.iter().flat_map(|page| ints(page, 0)).collect();
            assert_eq!(joined, whole[..expected], "{limit}");
            let counts = pages.iter().flat_map(|page| &page.rows).map(|row| row[1].clone());
            assert!(counts.flatten().all(|count| count.as_ref() == 4i64.to_be_bytes()));
        }
        for page_size in [1, 3, 4] {
            let statement = "SELECT k, c, count(*) FROM ks.t GROUP BY k, c PER PARTITION LIMIT 2";
            let pages = read_pages(&mut client, statement, page_size).await;
            let joined: Vec<i32> = pages.iter().flat_map(|page| ints(page, 0)).collect();
            let twice: Vec<i32> = whole.iter().flat_map(|k| [*k, *k]).collect();
            assert_eq!(joined, twice, "pages of {page_size}");
        }
    });
}
