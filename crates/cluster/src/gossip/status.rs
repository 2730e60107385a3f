//! The status of a node, as text: its first word, and what follows behind commas.
//!
//! ```text
//! BOOT,token            streams its data before it joins
//! BOOT_REPLACE,address  the same, in the place of another
//! NORMAL,token          is a member
//! LEAVING,token         hands its data over
//! LEFT,token,millis     is gone; forgotten at that time
//! MOVING,token          goes to that token
//! removing,host id      is being removed by another node
//! removed,host id,millis
//! hibernate,true        is there, but must not be asked
//! shutdown,true         stopped in good order
//! ```
//! The token is the first of the node's; all of them are in `TOKENS`. What to do about a node depends on the
//! first word alone, so a status whose rest cannot be read is still heard. Source: `VersionedValue` of 4.0.

use super::text::Text;
use crate::endpoint::Endpoint;
use std::fmt;
use std::net::IpAddr;
use uuid::Uuid;

/// A status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Streams its data before it joins.
    Boot {
        /// Its first token.
        token: i64,
    },
    /// Streams its data before it takes the place of another.
    BootReplace {
        /// The other's address.
        ip: IpAddr,
        /// The other's port, in the status that has one.
        port: Option<u16>,
    },
    /// Is a member.
    Normal {
        /// Its first token.
        token: i64,
    },
    /// Hands its data over.
    Leaving {
        /// Its first token.
        token: i64,
    },
    /// Is gone.
    Left {
        /// Its first token.
        token: i64,
        /// When it may be forgotten: milliseconds since 1970.
        expires_millis: i64,
    },
    /// Goes to another token.
    Moving {
        /// That token.
        token: i64,
    },
    /// Is being removed by another node.
    Removing {
        /// Its id.
        host_id: Uuid,
    },
    /// Was removed by another node.
    Removed {
        /// Its id.
        host_id: Uuid,
        /// When it may be forgotten: milliseconds since 1970.
        expires_millis: i64,
    },
    /// Is there, but must not be asked.
    Hibernate,
    /// Stopped in good order.
    Shutdown,
}

/// The first word of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusKind {
    /// The node has said no status.
    Absent,
    /// `BOOT`
    Boot,
    /// `BOOT_REPLACE`
    BootReplace,
    /// `NORMAL`
    Normal,
    /// `LEAVING`
    Leaving,
    /// `LEFT`
    Left,
    /// `MOVING`
    Moving,
    /// `removing`
    Removing,
    /// `removed`
    Removed,
    /// `hibernate`
    Hibernate,
    /// `shutdown`
    Shutdown,
    /// A word of another version.
    Other,
}

impl StatusKind {
    /// The kind of a status.
    pub fn of(status: &str) -> StatusKind {
        match status.split(',').next().unwrap_or_default() {
            "" => StatusKind::Absent,
            "BOOT" => StatusKind::Boot,
            "BOOT_REPLACE" => StatusKind::BootReplace,
            "NORMAL" => StatusKind::Normal,
            "LEAVING" => StatusKind::Leaving,
            "LEFT" => StatusKind::Left,
            "MOVING" => StatusKind::Moving,
            "removing" => StatusKind::Removing,
            "removed" => StatusKind::Removed,
            "hibernate" => StatusKind::Hibernate,
            "shutdown" => StatusKind::Shutdown,
            _ => StatusKind::Other,
        }
    }

    /// Whether a node of this status counts as dead even while it is heard.
    pub fn is_dead(self) -> bool {
        self.is_gone() || matches!(self, StatusKind::Removing | StatusKind::Hibernate)
    }

    /// Whether the node has left for good.
    pub fn is_gone(self) -> bool {
        matches!(self, StatusKind::Left | StatusKind::Removed)
    }

    /// Whether the node is on its way into the ring.
    pub fn is_booting(self) -> bool {
        matches!(self, StatusKind::Boot | StatusKind::BootReplace)
    }

    /// Whether a node of this status owns tokens.
    pub fn is_member(self) -> bool {
        use StatusKind::{Leaving, Moving, Normal, Shutdown};
        matches!(self, Normal | Leaving | Moving | Shutdown)
    }
}

impl Status {
    /// Reads a status; nothing when it is none that is known.
    pub fn parse(text: &str) -> Option<Status> {
        let mut rest = text.split(',').skip(1);
        let first = rest.next()?;
        let mut expires_millis = || rest.next()?.parse().ok();
        Some(match StatusKind::of(text) {
            StatusKind::Boot => Status::Boot { token: first.parse().ok()? },
            StatusKind::BootReplace => match first.parse() {
                Ok(ip) => Status::BootReplace { ip, port: None },
                Err(_) => {
                    let with_port = Endpoint::from(first.parse::<std::net::SocketAddr>().ok()?);
                    Status::BootReplace { ip: with_port.ip, port: Some(with_port.port) }
                }
            },
            StatusKind::Normal => Status::Normal { token: first.parse().ok()? },
            StatusKind::Leaving => Status::Leaving { token: first.parse().ok()? },
            StatusKind::Left => {
                Status::Left { token: first.parse().ok()?, expires_millis: expires_millis()? }
            }
            StatusKind::Moving => Status::Moving { token: first.parse().ok()? },
            StatusKind::Removing => Status::Removing { host_id: first.parse().ok()? },
            StatusKind::Removed => {
                Status::Removed { host_id: first.parse().ok()?, expires_millis: expires_millis()? }
            }
            StatusKind::Hibernate => Status::Hibernate,
            StatusKind::Shutdown => Status::Shutdown,
            StatusKind::Absent | StatusKind::Other => return None,
        })
    }

    /// The status as it is published.
    pub fn text(&self) -> Text {
        Text::made(self)
    }

    /// When a node of this status may be forgotten: milliseconds since 1970.
    pub fn expires_millis(&self) -> Option<i64> {
        match self {
            Status::Left { expires_millis, .. } | Status::Removed { expires_millis, .. } => {
                Some(*expires_millis)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Status::Boot { token } => write!(f, "BOOT,{token}"),
            Status::BootReplace { ip, port: None } => write!(f, "BOOT_REPLACE,{ip}"),
            Status::BootReplace { ip, port: Some(port) } => {
                write!(f, "BOOT_REPLACE,{}", Endpoint::new(ip, port))
            }
            Status::Normal { token } => write!(f, "NORMAL,{token}"),
            Status::Leaving { token } => write!(f, "LEAVING,{token}"),
            Status::Left { token, expires_millis } => write!(f, "LEFT,{token},{expires_millis}"),
            Status::Moving { token } => write!(f, "MOVING,{token}"),
            Status::Removing { host_id } => write!(f, "removing,{host_id}"),
            Status::Removed { host_id, expires_millis } => write!(f, "removed,{host_id},{expires_millis}"),
            Status::Hibernate => f.write_str("hibernate,true"),
            Status::Shutdown => f.write_str("shutdown,true"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_comes_back() {
        for text in [
            "BOOT,-9223372036854775808",
            "BOOT_REPLACE,127.0.0.2",
            "BOOT_REPLACE,127.0.0.2:7000",
            "BOOT_REPLACE,::1",
            "BOOT_REPLACE,[::1]:7000",
            "NORMAL,-5",
            "LEAVING,7",
            "LEFT,7,1700000000000",
            "MOVING,9",
            "removing,7a3b1d5e-0000-4000-8000-000000000001",
            "removed,7a3b1d5e-0000-4000-8000-000000000001,1700000000000",
            "hibernate,true",
            "shutdown,true",
        ] {
            assert_eq!(Status::parse(text).map(|status| status.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_status_whose_rest_is_unknown_still_has_a_kind() {
        for text in ["LEFT,7", "LEFT,x,y", "LEFT"] {
            assert_eq!((Status::parse(text), StatusKind::of(text)), (None, StatusKind::Left));
        }
        assert_eq!(StatusKind::of("SLEEPING,1"), StatusKind::Other);
        assert_eq!(StatusKind::of(""), StatusKind::Absent);
    }

    #[test]
    fn who_is_gone_is_dead() {
        assert!(StatusKind::Left.is_gone() && StatusKind::Left.is_dead());
        assert!(StatusKind::Hibernate.is_dead() && !StatusKind::Hibernate.is_gone());
        assert!(!StatusKind::Shutdown.is_dead() && StatusKind::Shutdown.is_member());
    }
}
