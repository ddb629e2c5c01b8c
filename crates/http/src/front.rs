//! The thread that serves the API and obeys signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};

use selvedge_daemon::{Service, obey};
use tokio::net::UnixListener;
use tokio::sync::oneshot;

use crate::answers::Answers;
use crate::limits::{Limits, THREADS};
use crate::routes::routes;
use crate::server::serve;
use crate::{HttpError, Socket};

/// The thread that serves the API and obeys signals; it ends when this is dropped.
pub struct Front {
    /// Dropped, with its file, when no thread serves it any more.
    _socket: Option<Socket>,
    signal: Arc<AtomicI32>,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    /// Obeys signals, and serves the API on `socket` if there is one.
    pub fn open(mut socket: Option<Socket>, service: Arc<dyn Service>) -> Result<Self, HttpError> {
        let listener = socket.as_mut().and_then(|socket| socket.listener.take());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS)
            .build()
            .map_err(|cause| HttpError::Thread { cause })?;
        let (close, closed) = oneshot::channel();
        let signal = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&signal);
        let work = async move {
            let serving = async {
                match listener.map(UnixListener::from_std) {
                    Some(Ok(listener)) => {
                        let answers = Arc::new(Answers::new(Arc::clone(&service)));
                        let router = routes(Arc::clone(&answers));
                        serve(listener, router, answers, Limits::of_this_process()).await;
                    }
                    Some(Err(_)) | None => std::future::pending().await,
                }
            };
            let obeying = async {
                if let Ok(number) = obey(Arc::clone(&service)).await {
                    // Store the reason first: a thread that waits for the end of the work reads it at once.
                    seen.store(number, Ordering::SeqCst);
                    service.stop();
                }
                // The API answers until the work is over.
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = serving => {}
                () = obeying => {}
                _ = closed => {}
            }
        };
        let thread = thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                runtime.block_on(work);
                // A request that hangs, for example on a file system, must not keep the process from ending.
                runtime.shutdown_background();
            })
            .map_err(|cause| HttpError::Thread { cause })?;
        Ok(Self {
            _socket: socket,
            signal,
            close: Some(close),
            thread: Some(thread),
        })
    }

    /// Returns the signal that ended the process's work, if there was one.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|&number| number != 0)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(close) = self.close.take() {
            let _ = close.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
