//! Paths and their handlers.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body as RequestBody, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use selvedge_api::{
    Body, CheckRequest, Document, Error, ErrorKind, EventQuery, FaultRequest, ForgetRequest, OutOfServiceRequest,
    RebalanceRequest, Rows, Selection,
};
use selvedge_daemon::Service;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::answers::{Answers, Question};
use crate::limits::{BODY_BYTES_MAX, BODY_MAX, CONFIGURATION_BYTES_MAX, URI_BYTES_MAX};
use crate::{jobs, telemetry};

pub(crate) type Shared = State<Arc<Answers>>;

/// Returns a router of all paths, answered by `service`.
pub fn router(service: Arc<dyn Service>) -> Router {
    routes(Arc::new(Answers::new(service)))
}

/// Returns a router of all paths.
pub(crate) fn routes(answers: Arc<Answers>) -> Router {
    let whole = |question| get(move |State(answers): Shared| async move { show(answers.of(question).await) });
    let router = Router::new()
        .route(
            "/api/v1/status",
            get(async |State(answers): Shared| show(answers.small(|s| s.status()).await)),
        )
        .route(
            "/api/v1/health",
            get(async |State(answers): Shared| show(answers.small(|s| s.health()).await)),
        )
        .route("/api/v1/forget", post(forget))
        .route(
            "/api/v1/out-of-service",
            get(async |State(answers): Shared| show(answers.small(|s| s.out_of_service()).await)).post(change_service),
        )
        .route("/api/v1/fabric", whole(Question::Fabric))
        .route("/api/v1/nodes", list(Question::Nodes, |s| s.nodes()))
        .route("/api/v1/ports", list(Question::Ports, |s| s.ports()))
        .route("/api/v1/links", list(Question::Links, |s| s.links()))
        .route("/api/v1/plan", whole(Question::Plan))
        .route("/api/v1/findings", whole(Question::Findings))
        .route("/api/v1/partitions", whole(Question::Partitions))
        .route("/api/v1/events", get(events))
        .route(
            "/api/v1/sweep",
            post(async |State(answers): Shared| accept(answers.ask(|s| s.sweep()).await)),
        )
        .route("/api/v1/rebalance", post(rebalance))
        .route("/api/v1/policy/reload", post(reload))
        .route(
            "/api/v1/policy/preview",
            post(async |State(answers): Shared| show(answers.alone(|s| s.would_send()).await)),
        )
        .route(
            "/api/v1/changes",
            get(async |State(answers): Shared| show(answers.small(|s| s.policy_changes()).await)),
        )
        .route("/api/v1/policy/check", post(check))
        .route("/api/v1/fault", post(fault))
        .merge(jobs::routes())
        .merge(telemetry::routes());
    refuse_others(router).with_state(answers)
}

/// Returns a router that refuses every other path and method.
pub(crate) fn refuse_others(router: Router<Arc<Answers>>) -> Router<Arc<Answers>> {
    router
        .fallback(async || refusal(&ErrorKind::NotFound.error("there is no such path")))
        .method_not_allowed_fallback(async || refusal(&ErrorKind::WrongMethod.error("this path has another method")))
        .layer(middleware::from_fn(short_enough))
}

/// Refuses paths that are too long.
async fn short_enough(request: Request, next: Next) -> Response {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if path > URI_BYTES_MAX {
        let what = format!("the path has {path} bytes, more than {URI_BYTES_MAX}");
        return refusal(&ErrorKind::UriTooLong.error(what));
    }
    next.run(request).await
}

pub(crate) fn show(answer: Result<Bytes, Error>) -> Response {
    match answer {
        Ok(json) => json_response(StatusCode::OK, json),
        Err(error) => refusal(&error),
    }
}

fn accept(answer: Result<(), Error>) -> Response {
    match answer {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => refusal(&error),
    }
}

/// The parameters of a query, in order; a name may come several times.
pub(crate) type Parameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

pub(crate) fn parameters(query: Parameters) -> Result<Vec<(String, String)>, Error> {
    query
        .map(|Query(parameters)| parameters)
        .map_err(|error| ErrorKind::BadRequest.error(error.body_text()))
}

/// Answers with a list, whole or selected. Only whole lists are shared by clients.
fn list<T: Body + Rows + 'static>(
    question: Question,
    of: fn(&dyn Service) -> Result<T, Error>,
) -> MethodRouter<Arc<Answers>> {
    get(move |State(answers): Shared, query: Parameters| async move {
        let selection = match parameters(query).and_then(|query| Ok((query.is_empty(), Selection::of(&query)?))) {
            Ok((true, _)) => return show(answers.of(question).await),
            Ok((false, selection)) => selection,
            Err(error) => return refusal(&error),
        };
        let selected = move |service: &dyn Service| {
            let mut list = of(service)?;
            selection.apply(&mut list);
            Ok(list)
        };
        show(answers.alone(selected).await)
    })
}

/// Answers with events. Events after a number are shared by clients; events of a time or a severity are not.
async fn events(State(answers): Shared, query: Parameters) -> Response {
    let query = match parameters(query).and_then(|query| EventQuery::of(&query)) {
        Ok(query) => query,
        Err(error) => return refusal(&error),
    };
    let since = query.since;
    let numbered = EventQuery {
        since,
        ..EventQuery::default()
    };
    if query == numbered {
        return show(answers.of(Question::Events(since)).await);
    }
    let selected = move |service: &dyn Service| {
        let mut events = service.events(since);
        query.apply(&mut events);
        Ok(events)
    };
    show(answers.alone(selected).await)
}

/// Handles a request to rebalance. An empty body means the default request.
async fn rebalance(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    let body = match read(&headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    let request = match body.is_empty() {
        true => Ok(RebalanceRequest::default()),
        false => serde_json::from_slice(&body),
    };
    match request {
        Ok(request) => show(answers.alone(move |s| s.rebalance(request)).await),
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body is no request to rebalance: {error}"))),
    }
}

/// Accepts a reload: the policy is proposed. The state of the change shows the outcome.
async fn reload(State(answers): Shared) -> Response {
    match answers.small(|s| s.reload()).await {
        Ok(json) => json_response(StatusCode::ACCEPTED, json),
        Err(error) => refusal(&error),
    }
}

/// Checks a configuration; with an empty body, the files that the manager was started with.
async fn check(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    let body = match read(&headers, body, CONFIGURATION_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    let request = match body.is_empty() {
        true => Ok(CheckRequest::default()),
        false => serde_json::from_slice(&body),
    };
    match request {
        Ok(request) => show(answers.small(move |s| s.check(&request)).await),
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body is not a configuration: {error}"))),
    }
}

async fn forget(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    match posted::<ForgetRequest>(&headers, body, "the body names nothing to forget").await {
        Ok(request) => show(answers.small(move |s| s.forget(&request)).await),
        Err(error) => refusal(&error),
    }
}

async fn change_service(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    match posted::<OutOfServiceRequest>(&headers, body, "the body names no place").await {
        Ok(request) => show(answers.small(move |s| s.change_service(&request)).await),
        Err(error) => refusal(&error),
    }
}

async fn fault(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    let has_body = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    if !has_body.iter().any(|name| headers.contains_key(name)) {
        return refusal(&ErrorKind::NoLength.error("the body must hold the fault, and there is none"));
    }
    let body = match read(&headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    match serde_json::from_slice::<FaultRequest>(&body) {
        Ok(request) => show(answers.small(move |s| s.fault(&request)).await),
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body is no fault: {error}"))),
    }
}

/// Reads the body of a request as JSON. `what` says what is wrong with a body that is something else.
pub(crate) async fn posted<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: RequestBody,
    what: &str,
) -> Result<T, Error> {
    let body = read(headers, body, BODY_BYTES_MAX).await?;
    serde_json::from_slice(&body).map_err(|error| ErrorKind::BadRequest.error(format!("{what}: {error}")))
}

/// Reads the whole body of a request, within limits of size and time.
pub(crate) async fn read(headers: &HeaderMap, body: RequestBody, limit: usize) -> Result<Bytes, Error> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let too_large = || ErrorKind::TooLarge.error(format!("the body has more than {limit} bytes"));
    if let Some(encoding) = text(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        return Err(ErrorKind::NotJson.error(format!("the body is encoded as '{encoding}'")));
    }
    if let Some(kind) = text(header::CONTENT_TYPE).filter(|kind| !is_taken(kind)) {
        return Err(ErrorKind::NotJson.error(format!("the body is '{kind}'")));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let whole = Limited::new(body, limit).collect();
    match timeout(BODY_MAX, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ErrorKind::BadRequest.error("the body broke off")),
        Err(_) => Err(ErrorKind::TimedOut.error("the body of the request did not arrive in time")),
    }
}

/// True for JSON, and for content types that clients send by default: `curl -d` labels every body a form.
fn is_taken(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let taken = ["application/json", "application/x-www-form-urlencoded", "text/plain"];
    taken.iter().any(|taken| kind.eq_ignore_ascii_case(taken))
}

pub(crate) fn refusal(error: &Error) -> Response {
    let status = StatusCode::from_u16(ErrorKind::status_of(&error.code)).unwrap_or(StatusCode::BAD_REQUEST);
    json_response(status, Document::new(error.clone()).to_json().into())
}

fn json_response(status: StatusCode, json: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}
