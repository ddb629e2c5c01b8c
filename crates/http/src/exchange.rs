//! One request and its answer, over any stream: what every client of this crate uses.

use std::future::Future;
use std::io;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Carries out work on the calling thread. `None`: it is not done within this time.
pub(crate) fn within<T>(limit: Duration, work: impl Future<Output = T>) -> io::Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() });
    // A look-up of a name may still be under way.
    runtime.shutdown_background();
    Ok(done)
}

/// Sends a request over a stream, and returns the answer once its headers are here.
pub(crate) async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the connection; its error is also returned through the request.
    tokio::spawn(async move { drop(connection.await) });
    sender.send_request(request).await
}
