//! Addresses of HTTP servers.

use std::fmt;
use std::str::FromStr;

/// An address of an HTTP server, without encryption: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// Host, and port if it is not 80: what `Host:` has.
    pub authority: String,
    /// Name or address of the host, without the brackets of an IPv6 address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path with the query; begins with a slash.
    pub path: String,
}

/// What is no such address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHttpUrl;

impl FromStr for HttpUrl {
    type Err = NoHttpUrl;

    fn from_str(text: &str) -> Result<Self, NoHttpUrl> {
        let rest = text.strip_prefix("http://").ok_or(NoHttpUrl)?;
        let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic());
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // The name ends at the last colon, unless that is within the brackets of an IPv6 address.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| NoHttpUrl)?),
            _ => (authority, 80),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || !is_plain || authority.contains('@') || port == 0 {
            return Err(NoHttpUrl);
        }
        Ok(Self {
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
        })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_printed() {
        for (text, host, port, path) in [
            (
                "http://prometheus:9090/api/v1/write",
                "prometheus",
                9090,
                "/api/v1/write",
            ),
            ("http://[::1]:8428/write?db=ib", "::1", 8428, "/write?db=ib"),
            ("http://[::1]/", "::1", 80, "/"),
            ("http://10.0.0.1/w", "10.0.0.1", 80, "/w"),
        ] {
            let url: HttpUrl = text.parse().expect(text);
            assert_eq!((url.host.as_str(), url.port, url.path.as_str()), (host, port, path));
            assert_eq!(url.to_string(), text);
        }
        for text in [
            "",
            "prometheus:9090",
            "https://a/b",
            "http://",
            "http://:9090/x",
            "http://a:b/x",
            "http://a:0/",
            "http://a b/",
            "http://me:secret@a/",
            "http://a/\r\nX: y",
        ] {
            assert_eq!(text.parse::<HttpUrl>(), Err(NoHttpUrl), "{text}");
        }
    }
}
