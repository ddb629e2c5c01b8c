//! The stream of a connection: tracks the connection's phase, and adds an error object to every refusal.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use selvedge_api::{Document, Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::seats::Pulse;

/// A client's stream.
///
/// The HTTP library refuses unreadable requests (400, 414, 431) without a body. Our own refusals always have a body. An
/// empty refusal therefore comes from the library; the stream replaces it by a refusal with an error object.
pub(crate) struct Guarded {
    stream: UnixStream,
    pulse: Arc<Pulse>,
    /// The replacement of a library refusal, and how many of its bytes are sent.
    refusal: Option<(Vec<u8>, usize)>,
    /// True if the most recently received bytes contain the end of a first line.
    has_line: bool,
}

impl Guarded {
    pub(crate) fn new(stream: UnixStream, pulse: Arc<Pulse>) -> Self {
        Self {
            stream,
            pulse,
            refusal: None,
            has_line: false,
        }
    }

    /// Sends a last refusal on a connection that closes. Ignores errors, because the client may be gone.
    pub(crate) fn refuse(&self, error: &Error) {
        if self.refusal.is_none() {
            refuse(&self.stream, error);
        }
    }

    /// Returns the replacement for an empty refusal of the library.
    fn replaced(&self, head: &[u8]) -> Option<Vec<u8>> {
        let status = empty_refusal(head)?;
        let error = match status {
            414 => ErrorKind::UriTooLong.error("the path is too long"),
            431 if !self.has_line => ErrorKind::UriTooLong.error("the first line of the request is too long"),
            431 => ErrorKind::HeadTooLarge.error("the request has too many headers, or too long ones"),
            _ => ErrorKind::BadRequest.error("the request is not HTTP/1.1"),
        };
        Some(response(&error))
    }
}

/// Sends as much of a refusal as the stream accepts at once: a few hundred bytes, for which a new stream has room.
pub(crate) fn refuse(stream: &UnixStream, error: &Error) {
    let _ = stream.try_write(&response(error));
}

/// Returns a whole response that closes the connection.
fn response(error: &Error) -> Vec<u8> {
    let status = ErrorKind::status_of(&error.code);
    let body = Document::new(error.clone()).to_json();
    let reason = axum::http::StatusCode::from_u16(status).map_or("", |status| status.canonical_reason().unwrap_or(""));
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns the status of a response that refuses without a body; `None` for other responses.
fn empty_refusal(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.").filter(|rest| rest.len() > 5)?;
    let status: u16 = std::str::from_utf8(&rest[2..5]).ok()?.parse().ok()?;
    let is_empty = head.windows(EMPTY.len()).any(|part| part.eq_ignore_ascii_case(EMPTY));
    (status >= 400 && is_empty).then_some(status)
}

const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let new = &buf.filled()[before..];
        if !new.is_empty() {
            if self.pulse.received() {
                self.has_line = false;
            }
            self.has_line |= new.contains(&b'\n');
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.refusal.is_none()
            && let Some(refusal) = parts
                .iter()
                .find(|part| !part.is_empty())
                .and_then(|part| self.replaced(part))
        {
            self.refusal = Some((refusal, 0));
        }
        let this = &mut *self;
        let Some((refusal, sent)) = &mut this.refusal else {
            let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, parts))?;
            this.pulse.sent();
            return Poll::Ready(Ok(written));
        };
        while *sent < refusal.len() {
            *sent += ready!(Pin::new(&mut this.stream).poll_write(cx, &refusal[*sent..]))?;
            this.pulse.sent();
        }
        // The library's own refusal counts as sent. Nothing follows, because the library closes the connection.
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_refusals_are_recognised() {
        let check = |head: &str, want: Option<u16>| assert_eq!(empty_refusal(head.as_bytes()), want, "{head}");
        check("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", Some(400));
        check(
            "HTTP/1.0 431 X\r\nconnection: close\r\nContent-Length: 0\r\ndate: x\r\n\r\n",
            Some(431),
        );
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", None);
        check("HTTP/1.1 404 Not Found\r\ncontent-length: 10\r\n\r\n", None);
        check("HTTP/1.1 4", None);
        check("{}", None);
        check("", None);
    }
}
