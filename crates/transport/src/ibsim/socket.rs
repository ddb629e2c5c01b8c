//! Datagram sockets in the abstract name space, named as ibsim names them.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Longest base name, in bytes: a socket name has 107, and the longest ending is `:out` or `:ctl` with a number.
pub(crate) const BASE_NAME_MAX: usize = 80;

/// The address of `name`; the terminating NUL counts, as both ends of the protocol do it.
pub(crate) fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{name}\0"))
}

/// A non-blocking socket bound to `name`.
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

/// True if somebody holds `name`.
///
/// A scratch socket tries to connect: a name that nobody holds refuses; a socket that is connected to somebody else
/// forbids, which says that it lives.
pub(crate) fn is_alive(name: &str) -> bool {
    let probe = || UnixDatagram::unbound()?.connect_addr(&address(name)?);
    match probe() {
        Ok(()) => true,
        Err(error) => error.kind() != io::ErrorKind::ConnectionRefused,
    }
}

/// True for what a full queue, rather than a broken socket, answers.
pub(crate) fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// True for what a socket answers whose other end is gone.
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
