//! Losses on their way, and what is none.

use crate::losses::{Losses, MESSAGE_BYTES_MAX, messages};
use crate::{Loss, Select};

fn loss(number: u64) -> Loss {
    Loss {
        file: "/data/ks/t-1/nb-1-big-Data.db".to_owned(),
        offset: number,
        detail: "checksum of chunk 1 is 0x1, 0x2 is stored".to_owned(),
        partition: Some(format!("k = '{}'", "\u{1}".repeat(1_000))),
        tokens: number.is_multiple_of(2).then_some((i64::MIN, number as i64)),
        bytes: Some(number),
    }
}

#[test]
fn losses_come_as_they_were_in_messages_of_bounded_size() {
    assert!(messages(Vec::new()).is_empty());
    let all: Vec<Loss> = (0..1_000).map(loss).collect();
    let sent = messages(all.clone());
    assert!(sent.len() > 10 && sent.iter().all(|message| message.len() < MESSAGE_BYTES_MAX / 2));
    let mut read = Losses::default();
    sent.iter().for_each(|message| read.read(message).unwrap());
    assert_eq!(read.all(), all);
}

#[test]
fn what_is_no_message_of_losses_is_refused_and_keeps_nothing() {
    let mut read = Losses::default();
    let long = format!("{{\"losses\":[]{}}}", " ".repeat(MESSAGE_BYTES_MAX));
    for bytes in
        [&b""[..], b"{}", b"[]", b"{\"losses\":[{}]}", b"{\"losses\":[],\"more\":1}", long.as_bytes()]
    {
        let refused = read.read(bytes).unwrap_err().to_string();
        assert!(refused.starts_with("what a node says of damaged data cannot be read: "), "{refused}");
    }
    let many: Vec<Loss> = (0..6_000).map(|number| Loss { partition: None, ..loss(number) }).collect();
    let mut outcomes = Vec::new();
    for message in messages(many.clone()).into_iter().chain(messages(many)) {
        outcomes.push(read.read(&message).is_ok());
    }
    assert!(outcomes.contains(&false) && read.all().len() <= 10_000);
}

#[test]
fn words_that_ask_for_no_salvage_are_those_of_a_node_that_knows_none() {
    let words = serde_json::to_string(&Select::of("ks", "t")).unwrap();
    assert!(!words.contains("salvage"), "{words}");
    assert!(!serde_json::from_str::<Select>(&words).unwrap().salvage);
    let asks = Select { salvage: true, ..Select::of("ks", "t") };
    let words = serde_json::to_string(&asks).unwrap();
    assert_eq!(serde_json::from_str::<Select>(&words).unwrap(), asks);
}
