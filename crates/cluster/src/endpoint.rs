//! The address of a node: what other nodes know it by.
//!
//! ```text
//! endpoint := u8 size | ip | u16 port        size: 6 for IPv4, 18 for IPv6; numbers are big-endian
//! ```
//! Source: `InetAddressAndPort.Serializer` of Cassandra 4.0.

use partition::codec::{DecodeError, Input, SliceInput};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The broadcast address and the storage port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The broadcast address.
    pub ip: IpAddr,
    /// The storage port.
    pub port: u16,
}

impl Endpoint {
    /// A node's address.
    pub fn new(ip: IpAddr, port: u16) -> Endpoint {
        Endpoint { ip, port }
    }

    /// Where to connect to.
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self.ip {
            IpAddr::V4(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(18);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&self.port.to_be_bytes());
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the bytes are no address.
    pub fn decode(input: &mut SliceInput) -> Result<Endpoint, DecodeError> {
        let ip = match input.u8()? {
            6 => IpAddr::from(input.array::<4>()?),
            18 => IpAddr::from(input.array::<16>()?),
            size => return Err(input.malformed(format!("an address of {size} bytes"))),
        };
        Ok(Endpoint { ip, port: u16::from_be_bytes(input.array()?) })
    }
}

impl fmt::Display for Endpoint {
    /// As Cassandra writes it: `127.0.0.1:7000`, `[::1]:7000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket().fmt(f)
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint::new(address.ip(), address.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn addresses_come_back() {
        for text in ["127.0.0.99:7000", "[::1]:7001"] {
            let endpoint = Endpoint::from(text.parse::<SocketAddr>().unwrap());
            let mut bytes = Vec::new();
            endpoint.encode(&mut bytes);
            let decoded = Endpoint::decode(&mut SliceInput::new(Bytes::from(bytes.clone()))).unwrap();
            assert_eq!((decoded, decoded.to_string().as_str()), (endpoint, text));
            for len in 0..bytes.len() {
                let short = Bytes::copy_from_slice(&bytes[..len]);
                assert!(Endpoint::decode(&mut SliceInput::new(short)).is_err());
            }
        }
    }
}
