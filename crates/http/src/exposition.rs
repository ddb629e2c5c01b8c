//! Serves `GET /metrics`, and nothing else, by TCP: Prometheus does not read Unix sockets.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use selvedge_daemon::Service;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::HttpError;
use crate::answers::Answers;
use crate::limits::{HEAD_BYTES_MAX, THREADS};
use crate::routes::refuse_others;
use crate::telemetry::metric_routes;

/// Most connections. Each is for one request, and two Prometheus servers scrape at the same time at most.
const CONNECTIONS_MAX: usize = 16;
/// Longest time of a connection: more than a Prometheus server waits for an answer.
const CONNECTION_MAX: Duration = Duration::from_secs(120);
/// Wait after a connection could not be accepted for lack of descriptors or memory.
const RETRY: Duration = Duration::from_millis(100);

/// A TCP address that metrics are to be served at.
#[derive(Debug)]
pub struct MetricsAddress(StdListener);

impl MetricsAddress {
    /// Takes the address.
    pub fn bind(address: SocketAddr) -> Result<Self, HttpError> {
        let bound = StdListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        bound.map(Self).map_err(|cause| HttpError::BindTcp { address, cause })
    }

    /// Returns the address: if port 0 was asked for, with the port that was free.
    pub fn local(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }
}

/// The thread that serves metrics; it ends when this is dropped.
pub struct MetricsServer {
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves metrics at an address.
    pub fn open(address: MetricsAddress, service: Arc<dyn Service>) -> Result<Self, HttpError> {
        let failed = |cause| HttpError::Thread { cause };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS)
            .build()
            .map_err(failed)?;
        let (close, closed) = oneshot::channel();
        let work = async move {
            let answers = Arc::new(Answers::new(service));
            let router = refuse_others(metric_routes()).with_state(answers);
            let Ok(listener) = TcpListener::from_std(address.0) else {
                return;
            };
            tokio::select! {
                () = serve(listener, router) => {}
                _ = closed => {}
            }
        };
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            runtime.block_on(work);
            runtime.shutdown_background();
        });
        Ok(Self {
            close: Some(close),
            thread: Some(thread.map_err(failed)?),
        })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(close) = self.close.take() {
            let _ = close.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections for ever. Each is for one request.
async fn serve(listener: TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(RETRY).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let mut protocol = http1::Builder::new();
        protocol.max_header_size(HEAD_BYTES_MAX).keep_alive(false);
        let connection = protocol.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A client that reads too slowly, or writes no HTTP, is cut off.
            let _ = timeout(CONNECTION_MAX, connection).await;
            drop(permit);
        });
    }
}
