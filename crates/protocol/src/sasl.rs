//! SASL PLAIN, as the token of AUTH_RESPONSE carries it.
//!
//! ```text
//! token := [authorization id] 00 user 00 password        the first part is not looked at
//! ```
//!
//! A token comes from somebody who has not logged in: it is looked at where it lies, from its end.

/// User and password of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PlainCredentials<'a> {
    /// Bytes of the name, at least one.
    pub user: &'a [u8],
    /// Bytes of the password, at least one.
    pub password: &'a [u8],
}

/// Says how long they are, never what they are.
impl std::fmt::Debug for PlainCredentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (user, password) = (self.user.len(), self.password.len());
        write!(f, "PlainCredentials(user of {user} bytes, password of {password} bytes)")
    }
}

/// Why a token is none. The words are Cassandra's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    /// It has more than three parts.
    #[error("Credential format error: username or password is empty or contains NUL(\\0) character")]
    TooManyParts,
    /// It has no password.
    #[error("Password must not be null")]
    NoPassword,
    /// It has no user.
    #[error("Authentication ID must not be null")]
    NoUser,
}

/// Reads a token.
///
/// # Errors
/// When it has too many parts, or one that counts is empty.
pub fn plain(token: &[u8]) -> Result<PlainCredentials<'_>, PlainError> {
    let mut parts = token.rsplitn(4, |&byte| byte == 0);
    let (last, before, first, more) = (parts.next(), parts.next(), parts.next(), parts.next());
    if more.is_some() {
        return Err(PlainError::TooManyParts);
    }
    // What stands before the first NUL is neither a password nor a user.
    let password =
        last.filter(|bytes| before.is_some() && !bytes.is_empty()).ok_or(PlainError::NoPassword)?;
    let is_user = |bytes: &&[u8]| first.is_some() && !bytes.is_empty();
    let user = before.filter(is_user).ok_or(PlainError::NoUser)?;
    Ok(PlainCredentials { user, password })
}

/// Reads arbitrary bytes as a token and as the body of AUTH_RESPONSE: an entry point for fuzzing. What is
/// read is what was sent.
///
/// # Panics
/// When a token is read as other credentials than it holds.
pub fn fuzz_plain(bytes: &[u8]) {
    let mut reader = crate::primitives::Reader::new(bytes::Bytes::copy_from_slice(bytes));
    let body = crate::request::AuthResponse::decode(&mut reader).ok();
    let token = body.as_ref().and_then(|body| body.token.as_deref());
    for token in token.into_iter().chain([bytes]) {
        let nuls = token.iter().filter(|&&byte| byte == 0).count();
        match plain(token) {
            Ok(read) => {
                let end = [b"\0", read.user, b"\0", read.password].concat();
                assert!(nuls == 2 && token.ends_with(&end), "{token:02x?} is read as {read:?}");
                assert!(!read.user.is_empty() && !read.password.is_empty(), "{token:02x?}");
            }
            Err(why) => assert!((nuls > 2) == (why == PlainError::TooManyParts), "{token:02x?}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_cassandra_reads_them() {
        let of = |user, password| Ok(PlainCredentials { user, password });
        assert_eq!(plain(b"\0bob\0secret"), of(b"bob", b"secret"));
        assert_eq!(plain(b"other\0bob\0secret"), of(b"bob", b"secret"));
        for token in [b"".as_slice(), b"secret", b"\0", b"\0bob\0", b"\0\0"] {
            assert_eq!(plain(token), Err(PlainError::NoPassword), "{token:?}");
        }
        for token in [b"\0\0secret".as_slice(), b"\0secret", b"bob\0secret"] {
            assert_eq!(plain(token), Err(PlainError::NoUser), "{token:?}");
        }
        for token in [b"\0a\0b\0c".as_slice(), b"\0\0\0", b"\0bob\0secret\0"] {
            assert_eq!(plain(token), Err(PlainError::TooManyParts), "{token:?}");
        }
        assert!(PlainError::TooManyParts.to_string().contains("NUL(\\0)"));
    }

    #[test]
    fn what_is_told_of_credentials_does_not_tell_them() {
        let told = format!("{:?}", plain(b"\0bob\0secret"));
        assert_eq!(told, "Ok(PlainCredentials(user of 3 bytes, password of 6 bytes))");
    }
}
