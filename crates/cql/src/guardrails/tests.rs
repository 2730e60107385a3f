//! What scripts of the conformance suite cannot show: clocks, and which guardrails cost a look at requests.

use super::*;

fn guard(rules: Guardrails) -> Guard {
    Guard::new(Arc::new(rules))
}

#[test]
fn timestamps_are_judged_by_the_clock() {
    let (now, second) = (1_700_000_000_000_000, 1_000_000);
    let of = |maximum: Thresholds, minimum: Thresholds| {
        guard(Guardrails { maximum_timestamp: maximum, minimum_timestamp: minimum, ..Guardrails::default() })
    };
    let bounds = Thresholds { warn: second as u64, fail: 10 * second as u64 };
    let ahead = of(bounds, Thresholds::default());
    assert_eq!(ahead.timestamp("t", now + second, now), Ok(()));
    assert_eq!(ahead.timestamp("t", i64::MIN + 1, now), Ok(()));
    assert_eq!(ahead.take_warnings(), Vec::<String>::new());
    assert_eq!(ahead.timestamp("t", now + second + 1, now), Ok(()));
    assert_eq!(
        ahead.take_warnings(),
        [
            "Guardrail maximum_timestamp violated: The modification to table t has a timestamp 1700000001000001 after the \
          maximum allowable warning threshold 1700000001000000. Timestamps too far in the future can lead to data that \
          can't be easily overwritten"
        ]
    );
    assert!(
        ahead
            .timestamp("t", i64::MAX, now)
            .unwrap_err()
            .to_string()
            .contains("failure threshold 1700000010000000")
    );

    let behind = of(Thresholds::default(), bounds);
    assert_eq!(behind.timestamp("t", now - second, now), Ok(()));
    assert_eq!(behind.timestamp("t", i64::MAX, now), Ok(()));
    assert_eq!(behind.take_warnings(), Vec::<String>::new());
    let refused = behind.timestamp("t", now - 10 * second - 1, now).unwrap_err().to_string();
    assert_eq!(
        refused,
        "Guardrail minimum_timestamp violated: The modification to table t has a timestamp 1699999989999999 before the \
         minimum allowable failure threshold 1699999990000000. Timestamps too far in the past can cause writes can be \
         unexpectedly lost"
    );
    assert_eq!(behind.take_warnings(), [refused], "clients are warned of what is refused, too");
}

#[test]
fn requests_are_looked_at_only_for_what_is_set() {
    assert!(!Guardrails::default().hold_requests());
    let bounds = Thresholds { warn: 0, fail: 1 };
    let of_schema = Guardrails { tables: bounds, drop_keyspace_enabled: false, ..Guardrails::default() };
    assert!(!of_schema.hold_requests());
    let level = Values { warned: vec![Consistency::All], ..Values::default() };
    for rules in [
        Guardrails { page_size: bounds, ..Guardrails::default() },
        Guardrails { column_value_size: bounds, ..Guardrails::default() },
        Guardrails { read_consistency_levels: level, ..Guardrails::default() },
        Guardrails { user_timestamps_enabled: false, ..Guardrails::default() },
        Guardrails { drop_truncate_table_enabled: false, ..Guardrails::default() },
    ] {
        assert!(rules.hold_requests(), "{rules:?}");
    }
}
