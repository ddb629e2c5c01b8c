//! Accepts connections and serves them, within limits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use selvedge_api::ErrorKind;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::answers::Answers;
use crate::guarded::{Guarded, refuse};
use crate::limits::{HEAD_BYTES_MAX, Limits};
use crate::seats::{Phase, Pulse, Seat, Seats};

/// How often silent connections and old answers are removed.
const TICK: Duration = Duration::from_secs(1);
/// Wait after a connection could not be accepted for lack of descriptors or memory.
const RETRY: Duration = Duration::from_millis(100);

/// Accepts connections for ever.
pub(crate) async fn serve(listener: UnixListener, router: Router, answers: Arc<Answers>, limits: Limits) {
    let seats = Seats::new(limits);
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept(), if seats.has_room() => match accepted {
                Ok((stream, _)) => {
                    if admit(&seats, stream, &router) {
                        // Lets the closed connection free its descriptor now, not some connections later.
                        tokio::task::yield_now().await;
                    }
                }
                Err(_) => {
                    seats.make_room();
                    sleep(RETRY).await;
                }
            },
            () = seats.freed() => {}
            _ = tick.tick() => {
                seats.close_silent();
                answers.forget_old();
            }
        }
    }
}

/// Serves a new connection, or refuses it. Returns true if another connection is closed for it.
fn admit(seats: &Arc<Seats>, stream: UnixStream, router: &Router) -> bool {
    // Without credentials, the peer has already closed the connection.
    let Ok(peer) = stream.peer_cred() else { return false };
    let Some((seat, closes)) = seats.take(peer.uid()) else {
        let busy = ErrorKind::Busy.error(format!("user {} has too many active connections", peer.uid()));
        refuse(&stream, &busy);
        return false;
    };
    tokio::spawn(converse(seat, stream, router.clone()));
    closes
}

/// Serves a connection until it ends.
async fn converse(seat: Seat, stream: UnixStream, router: Router) {
    let pulse = Arc::clone(&seat.pulse);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let has_body = !request.body().is_end_stream();
        pulse.begin(if has_body { Phase::Body } else { Phase::Working });
        let pulse = Arc::clone(&pulse);
        router.call(request.map(|body| UntilRead { body, pulse }))
    });
    let io = TokioIo::new(Guarded::new(stream, Arc::clone(&seat.pulse)));
    let mut connection = http1::Builder::new()
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(io, service);
    let result = tokio::select! {
        result = &mut connection => Some(result),
        () = seat.pulse.closed() => None,
    };
    let refusal = match (result, seat.pulse.state().0) {
        (None, Phase::Head) => ErrorKind::TimedOut.error("the head of the request did not arrive in time"),
        (None, Phase::Body) => ErrorKind::TimedOut.error("the body of the request did not arrive in time"),
        // HTTP/2: the library closes the connection without an answer.
        (Some(Err(error)), _) if error.is_parse() => ErrorKind::BadRequest.error("the request is not HTTP/1.1"),
        _ => return,
    };
    connection.into_parts().io.into_inner().refuse(&refusal);
}

/// The body of a request. Its last byte begins the next phase of the connection.
struct UntilRead {
    body: Incoming,
    pulse: Arc<Pulse>,
}

impl Body for UntilRead {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if (frame.is_none() || self.body.is_end_stream()) && self.pulse.state().0 == Phase::Body {
            self.pulse.begin(Phase::Working);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
