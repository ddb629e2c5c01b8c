//! HTTP requests that a process sends: what carries them out is given from outside.

use std::io;

use selvedge_config::HttpUrl;

/// Sends HTTP requests on behalf of a manager.
pub trait Post: Send + Sync {
    /// Sends a body with these headers, and returns the status of the answer. Fails if there is no answer within some
    /// seconds.
    fn post(&self, url: &HttpUrl, headers: &[(&str, &str)], body: Vec<u8>) -> io::Result<u16>;
}
