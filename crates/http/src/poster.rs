//! Sends bodies to other servers, by TCP.

use std::io;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use selvedge_daemon::{HttpUrl, Post};
use tokio::net::TcpStream;

use crate::exchange::{send, within};

/// Longest time of a request and its answer: a slot of data should not wait for a server longer than for the next slot.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a body to a server, by a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Poster {
    timeout: Duration,
}

impl Default for Poster {
    fn default() -> Self {
        Self { timeout: TIMEOUT }
    }
}

impl Post for Poster {
    fn post(&self, url: &HttpUrl, headers: &[(&str, &str)], body: Vec<u8>) -> io::Result<u16> {
        let mut request = Request::post(&url.path)
            .header(HOST, &url.authority)
            .header(USER_AGENT, "selvedge")
            .header(CONNECTION, "close");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let work = async {
            let stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
            let answer = send(stream, request).await.map_err(io::Error::other)?;
            Ok(answer.status().as_u16())
        };
        within(self.timeout, work)?.unwrap_or_else(|| {
            let what = format!("no answer within {} s", self.timeout.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Sends a body to a server that answers with this text, or keeps the connection open without an answer. Returns
    /// the result and the request.
    fn ask(answer: Option<&'static str>) -> (io::Result<u16>, String) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/v1/write?x=1", server.local_addr().unwrap());
        let url: HttpUrl = url.parse().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"body") {
                let mut part = [0; 1_024];
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0, "the request ends early");
                read.extend_from_slice(&part[..count]);
            }
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                // Until the client gives up.
                None => drop(stream.read(&mut [0])),
            }
            String::from_utf8(read).unwrap()
        });
        let poster = match answer {
            Some(_) => Poster::default(),
            None => Poster {
                timeout: Duration::from_millis(200),
            },
        };
        let result = poster.post(&url, &[("X-Version", "0.1.0")], b"body".to_vec());
        (result, server.join().unwrap())
    }

    #[test]
    fn the_status_of_the_answer_is_returned() {
        for (answer, want) in [
            ("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", 204),
            ("HTTP/1.0 400 Bad Request\r\n\r\nno snappy", 400),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404),
        ] {
            let (status, request) = ask(Some(answer));
            assert_eq!(status.unwrap(), want);
            assert!(request.starts_with("POST /api/v1/write?x=1 HTTP/1.1\r\n"), "{request}");
            let lower = request.to_lowercase();
            for line in [
                "host: 127.0.0.1:",
                "x-version: 0.1.0\r\n",
                "content-length: 4\r\n",
                "connection: close\r\n",
            ] {
                assert!(lower.contains(line), "{line} in {request}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for answer in ["SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 \r\n\r\n", ""] {
            assert!(ask(Some(answer)).0.is_err(), "{answer}");
        }
        assert_eq!(ask(None).0.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // No process listens at this address: the port was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url: HttpUrl = format!("http://{free}/").parse().unwrap();
        assert!(Poster::default().post(&url, &[], Vec::new()).is_err());
    }
}
