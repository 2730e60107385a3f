//! Sockets in the file system, for their owner alone.
//!
//! 1. What lies at the path is judged: a socket on which nobody listens any more is removed, one that answers
//!    and anything that is no socket are left and refused.
//! 2. The socket gets its mode before it gets its name: nobody else can connect in between.
#![allow(clippy::disallowed_methods, reason = "the name of a socket is part of the machine")]

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket in the file system with mode 0600 that listens. Its name goes when it is dropped.
#[derive(Debug)]
pub struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl PrivateSocket {
    /// Listens at `path`.
    ///
    /// # Errors
    /// Somebody else listens there, something else lies there, or the system says no.
    pub fn listen(path: &Path) -> io::Result<PrivateSocket> {
        make_room(path)?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Linux gives the name the mode of the socket.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        let bound = PrivateSocket { listener: UnixListener::from(socket), path: path.to_owned() };
        // Other systems do not.
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        rustix::net::listen(&bound.listener, BACKLOG)?;
        bound.listener.set_nonblocking(true)?;
        Ok(bound)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle of the listener, which does not block.
    ///
    /// # Errors
    /// When the process has no more handles.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        // Without its name nobody finds it; with it, the next start does what is done here.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn make_room(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, why.to_owned()));
    if !kind.is_socket() {
        return refused("what lies there is no socket, and is not replaced");
    }
    match UnixStream::connect(path) {
        Ok(_) => refused("another process listens there"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_its_owners_and_goes_with_the_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let socket = PrivateSocket::listen(&path).unwrap();
        let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(PrivateSocket::listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_a_crash_left_is_replaced_and_a_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // Its name stays behind.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(PrivateSocket::listen(&path).unwrap());
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(PrivateSocket::listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
