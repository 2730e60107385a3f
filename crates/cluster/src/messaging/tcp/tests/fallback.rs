//! When a node that connects does without encryption, and when it never does.
//!
//! Encryption is played by one byte: who connects says [`HELLO`] and waits for [`WELCOME`].

use super::*;

const HELLO: u8 = 0x16;
const WELCOME: u8 = 0x17;
const ALERT: u8 = 0x15;

/// What a node does with a connection that begins with [`HELLO`], and with one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// Closes the one, takes the other.
    Plain,
    /// Takes the one, closes the other.
    Encrypted,
    /// Answers the one with [`ALERT`], takes the other.
    Refusing,
    /// Closes both.
    Mute,
}

/// Encryption that is asked for, and may be `optional`.
struct Played {
    is: Peer,
    is_optional: bool,
    attempts: Mutex<Vec<Attempt>>,
}

impl Links for Played {
    fn connected(&self, mut tcp: TcpStream, _: Endpoint, attempt: Attempt) -> Wrapping<'_> {
        self.attempts.lock().unwrap().push(attempt);
        Box::pin(async move {
            if attempt == Attempt::Configured {
                tcp.write_u8(HELLO).await?;
                match tcp.read_u8().await? {
                    WELCOME => {}
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            Ok(Link::Plain(tcp))
        })
    }

    fn falls_back(&self, _: Endpoint, error: &io::Error) -> bool {
        self.is_optional && error.kind() == io::ErrorKind::UnexpectedEof
    }

    fn accepted(&self, mut tcp: TcpStream) -> Wrapping<'_> {
        Box::pin(async move {
            let mut first = [0];
            tcp.peek(&mut first).await?;
            match (self.is, first == [HELLO]) {
                (Peer::Encrypted, true) => {
                    tcp.read_u8().await?;
                    tcp.write_u8(WELCOME).await?;
                }
                (Peer::Refusing, true) => {
                    tcp.read_u8().await?;
                    tcp.write_u8(ALERT).await?;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                (Peer::Plain | Peer::Refusing, false) => {}
                (_, is_hello) => {
                    if is_hello {
                        tcp.read_u8().await?;
                    }
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
            Ok(Link::Plain(tcp))
        })
    }

    fn framing(&self, _: Endpoint) -> Framing {
        Framing::Crc
    }
}

fn played(is: Peer, is_optional: bool) -> Arc<Played> {
    Arc::new(Played { is, is_optional, attempts: Mutex::default() })
}

/// A node that asks for encryption, and one that it connects to.
fn both(is_optional: bool, peer: Peer) -> (Arc<Played>, Listening, Listening) {
    let own = played(Peer::Encrypted, is_optional);
    (Arc::clone(&own), listening_over(own, |_| ()), listening_over(played(peer, false), |_| ()))
}

fn attempts_of(links: &Played) -> Vec<Attempt> {
    links.attempts.lock().unwrap().clone()
}

/// The attempts until a message has come.
async fn attempts_until_sent(is_optional: bool, peer: Peer) -> Vec<Attempt> {
    let (links, own, mut other) = both(is_optional, peer);
    own.transport.send(other.transport.shared.options.me, message(1, "k")).unwrap();
    assert_eq!(other.got.recv().await.unwrap().2.id, 1);
    attempts_of(&links)
}

/// The attempts until the message is given up.
async fn attempts_until_lost(is_optional: bool, peer: Peer) -> Vec<Attempt> {
    let (links, mut own, mut other) = both(is_optional, peer);
    let short = Message { expires_after_millis: 200, ..message(1, "k") };
    own.transport.send(other.transport.shared.options.me, short).unwrap();
    assert_eq!(own.lost.recv().await.unwrap(), (1, Loss::Expired));
    let attempts = attempts_of(&links);
    // With nothing to send, nothing is tried.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(attempts_of(&links), attempts);
    assert!(other.got.try_recv().is_err());
    attempts
}

use Attempt::{Configured, Unencrypted};

#[test]
fn a_peer_that_speaks_encryption_is_asked_for_nothing_else() {
    runtime().block_on(async {
        for is_optional in [false, true] {
            assert_eq!(attempts_until_sent(is_optional, Peer::Encrypted).await, [Configured]);
        }
    });
}

#[test]
fn a_peer_that_closes_is_tried_without_encryption_next() {
    runtime().block_on(async {
        assert_eq!(attempts_until_sent(true, Peer::Plain).await, [Configured, Unencrypted]);
    });
}

#[test]
fn nothing_is_sent_in_plain_text_where_encryption_is_not_optional() {
    runtime().block_on(async {
        for peer in [Peer::Plain, Peer::Refusing, Peer::Mute] {
            let attempts = attempts_until_lost(false, peer).await;
            assert!(attempts.len() > 1, "{peer:?}");
            assert!(attempts.iter().all(|attempt| *attempt == Configured), "{peer:?}: {attempts:?}");
        }
    });
}

#[test]
fn a_peer_that_refuses_is_not_tried_without_encryption() {
    runtime().block_on(async {
        let attempts = attempts_until_lost(true, Peer::Refusing).await;
        assert!(attempts.iter().all(|attempt| *attempt == Configured), "{attempts:?}");
    });
}

#[test]
fn attempts_take_turns_and_end_with_the_messages() {
    runtime().block_on(async {
        let attempts = attempts_until_lost(true, Peer::Mute).await;
        assert!(attempts.len() > 2, "{attempts:?}");
        let in_turn = attempts.iter().zip([Configured, Unencrypted].iter().cycle());
        assert!(in_turn.clone().all(|(found, wanted)| found == wanted), "{attempts:?}");
        // Pauses grow from 1 to 10 ms.
        assert!(attempts.len() < 60, "{attempts:?}");
    });
}

#[test]
fn a_new_connection_begins_with_encryption_again() {
    runtime().block_on(async {
        let (links, own, mut other) = both(true, Peer::Plain);
        let to = other.transport.shared.options.me;
        for id in 1..=2 {
            own.transport.send(to, message(id, "k")).unwrap();
            assert_eq!(other.got.recv().await.unwrap().2.id, id);
            assert!(own.transport.flush(TIMEOUT).await);
            own.transport.interrupt(to);
            let active =
                || own.transport.outbound()[0].1.iter().map(|counts| counts.active_connections).sum::<u64>();
            until(|| active() == 0).await;
        }
        assert_eq!(attempts_of(&links), [Configured, Unencrypted, Configured, Unencrypted]);
    });
}
