//! What is sampled, and the refusals of what cannot be.

use super::*;
use crate::api::{ProfileJob, Sample, Sampler, SamplerResult};
use crate::nodetool::profile::{jobs_text, profile_text};

fn sample(value: &str, count: u64) -> Sample {
    Sample { table: "ks.t".to_owned(), value: value.to_owned(), count, error: 0 }
}

/// As Cassandra 5.0.5 prints it.
#[test]
fn samples_stand_in_cassandras_layout() {
    let found = [
        SamplerResult { sampler: Sampler::Reads, samples: vec![sample("1", 3)] },
        SamplerResult {
            sampler: Sampler::LocalReadTime,
            samples: vec![sample("SELECT * FROM ks.t WHERE k = 1", 859), sample("SELECT * FROM ks.t", 6)],
        },
        SamplerResult { sampler: Sampler::WriteSize, samples: vec![sample("1", 71)] },
        SamplerResult { sampler: Sampler::CasContentions, samples: Vec::new() },
    ];
    let expected = "\
Frequency of reads by partition:
   Table Partition Count +/-
   ks.t  1         3     0  

Longest read query times:
   Query                          Microseconds
   SELECT * FROM ks.t WHERE k = 1 859         
   SELECT * FROM ks.t             6           

Max mutation size by partition:
   Table Partition Bytes
   ks.t  1         71   

Frequency of CAS contention by partition:
   Nothing recorded during sampling period...

";
    assert_eq!(profile_text(&found), expected);
}

/// As Cassandra 5.0.5 prints them.
#[test]
fn jobs_stand_in_cassandras_layout() {
    assert_eq!(jobs_text(&[]), "KEYSPACE TABLE\n");
    let job = |keyspace: &str, table: Option<&str>| ProfileJob {
        keyspace: Some(keyspace.to_owned()),
        table: table.map(str::to_owned),
    };
    let jobs = [job("ks", Some("t")), job("a_long_keyspace", None)];
    assert_eq!(jobs_text(&jobs), "       KEYSPACE TABLE\n             ks     t\na_long_keyspace     *\n");
}

#[test]
fn wrong_arguments_are_told_in_nodetools_words() {
    let refusal = |words: &[&str]| match execute(&verb(words).unwrap()) {
        Err(Failure::Usage(message)) => message,
        other => panic!("{other:?}"),
    };
    for (words, expected) in [
        (&["ks"][..], "For input string: \"ks\""),
        (&["ks", "t", "abc"], "For input string: \"abc\""),
        (&["ks", "t", "-1"], "Duration: -1 must be positive"),
        (
            &["a", "b", "c", "d"],
            "Invalid arguments, either [keyspace table/* duration] or [keyspace table/*] or [duration] or no args.\n\
             Optionally, use * to represent all tables under the keyspace.",
        ),
        (
            &["-a", "READS,FOO", "ks", "t", "100"],
            "'FOO' sampler is not available from: [READS, WRITES, LOCAL_READ_TIME, READ_ROW_COUNT, \
             READ_TOMBSTONE_COUNT, READ_SSTABLE_COUNT, WRITE_SIZE, CAS_CONTENTIONS]",
        ),
        (&["-k", "0", "-a", "X"], "TopK count (-k) option must have positive value"),
        (&["-k", "300"], "TopK count (-k) option must be smaller then the summary capacity (-s)"),
        (&["-k", "x"], "topCount: can not convert \"x\" to a int"),
        (
            &["-i", "100", "500"],
            "Invalid scheduled sampling interval. Expecting interval >= duration, but interval: 100 ms; duration: \
             500 ms",
        ),
    ] {
        for name in ["toppartitions", "profileload"] {
            assert_eq!(refusal(&[&[name], words].concat()), expected);
        }
    }
}
