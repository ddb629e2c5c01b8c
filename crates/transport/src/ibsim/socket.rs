//! Datagram sockets in the abstract name space, with the names that ibsim uses.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Longest base name, in bytes: a socket name has at most 107 bytes, and the longest suffix is `:out` or `:ctl` with a
/// number.
pub(crate) const BASE_NAME_MAX: usize = 80;

/// Returns the address of `name`. The terminating NUL is part of it, as at both ends of the protocol.
pub(crate) fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{name}\0"))
}

/// Returns a non-blocking socket bound to `name`.
pub(crate) fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&address(name)?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// True if the address belongs to a socket bound to `name`.
pub(crate) fn is_named(of: &SocketAddr, name: &str) -> bool {
    let found = of.as_abstract_name().and_then(|found| found.strip_suffix(b"\0"));
    found == Some(name.as_bytes())
}

/// True if a socket is bound to `name`.
///
/// A temporary socket tries to connect. If no socket has the name, the connection is refused. A socket that is
/// connected to another peer gives a permission error, so it exists.
pub(crate) fn is_alive(name: &str) -> bool {
    let probe = || UnixDatagram::unbound()?.connect_addr(&address(name)?);
    match probe() {
        Ok(()) => true,
        Err(error) => error.kind() != io::ErrorKind::ConnectionRefused,
    }
}

/// True for an error that means a full queue, not a broken socket.
pub(crate) fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// True for an error that means that the other end is gone.
pub(crate) fn is_dead(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotConnected | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_is_seen_through_a_foreign_connection() {
        let name = |end: &str| format!("slv-socket-{}:{end}", std::process::id());
        let a = bind(&name("a")).unwrap();
        let b = bind(&name("b")).unwrap();
        a.connect_addr(&address(&name("b")).unwrap()).unwrap();
        b.connect_addr(&address(&name("a")).unwrap()).unwrap();
        assert!(is_alive(&name("a")));
        drop(a);
        assert!(!is_alive(&name("a")));
        assert!(is_alive(&name("b")));
        let error = b.send(b"x").unwrap_err();
        assert!(is_dead(&error), "{error}");
    }
}
