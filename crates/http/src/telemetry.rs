//! Paths of telemetry.

use std::fmt;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body as RequestBody, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use flate2::Compression;
use flate2::write::GzEncoder;
use selvedge_api::{
    AlarmQuery, AlarmRequest, BaselineRequest, Body, CableQuery, CongestionQuery, CounterQuery, Error, ErrorKind,
    MetricsQuery, PictureQuery, SeriesQuery, SetForm, SetQuery, SliceQuery, StoredEventQuery, TopologyQuery,
};
use selvedge_daemon::{Metrics, Service};

use crate::answers::Answers;
use crate::limits::BODY_BYTES_MAX;
use crate::routes::{Parameters, Shared, parameters, read, refusal, show};

/// Content types of the two formats of metrics. Source: Prometheus 2, "Exposition formats"; OpenMetrics 1.0.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";
const DOT: &str = "text/vnd.graphviz; charset=utf-8";

/// Returns a router of these paths.
pub(crate) fn routes() -> Router<Arc<Answers>> {
    Router::new()
        .route(
            "/api/v1/telemetry",
            get(async |State(answers): Shared| show(answers.small(|s| s.telemetry()).await)),
        )
        .route(
            "/api/v1/telemetry/counters",
            asked(CounterQuery::of, |s, query| s.counters(query)),
        )
        .route("/api/v1/telemetry/baseline", post(baseline))
        .route(
            "/api/v1/telemetry/sets",
            get(async |State(answers): Shared| show(answers.alone(|s| s.metric_sets()).await)),
        )
        .route("/api/v1/telemetry/set", get(set))
        .route(
            "/api/v1/telemetry/alarms",
            asked(AlarmQuery::of, |s, query| s.alarms(query)).post(change_alarms),
        )
        .route(
            "/api/v1/telemetry/congestion",
            asked(CongestionQuery::of, |s, query| s.congestion(query)),
        )
        .route(
            "/api/v1/telemetry/cables",
            asked(CableQuery::of, |s, query| s.cables(query)),
        )
        .route("/api/v1/telemetry/picture", get(picture))
        .merge(history_routes())
        .merge(metric_routes())
}

/// Returns a router of the paths of stored counters.
fn history_routes() -> Router<Arc<Answers>> {
    Router::new()
        .route(
            "/api/v1/telemetry/history",
            get(async |State(answers): Shared| show(answers.alone(|s| s.history()).await)),
        )
        .route(
            "/api/v1/telemetry/history/series",
            asked(SeriesQuery::of, |s, query| s.history_series(query)),
        )
        .route(
            "/api/v1/telemetry/history/ports",
            asked(SliceQuery::of, |s, query| s.history_ports(query)),
        )
        .route(
            "/api/v1/telemetry/history/events",
            asked(StoredEventQuery::of, |s, query| s.history_events(query)),
        )
        .route(
            "/api/v1/telemetry/history/topologies",
            get(async |State(answers): Shared| show(answers.alone(|s| s.history_topologies()).await)),
        )
        .route(
            "/api/v1/telemetry/history/topology",
            asked(TopologyQuery::of, |s, query| s.history_topology(*query)),
        )
}

/// The parameters of a query.
type Pairs = [(String, String)];

/// Answers a question that comes as the parameters of a query.
fn asked<Q: Send + 'static, T: Body + 'static>(
    read: fn(&Pairs) -> Result<Q, Error>,
    answer: fn(&dyn Service, &Q) -> Result<T, Error>,
) -> MethodRouter<Arc<Answers>> {
    get(move |State(answers): Shared, query: Parameters| async move {
        match parameters(query).and_then(|query| read(&query)) {
            Ok(query) => show(answers.alone(move |service| answer(service, &query)).await),
            Err(error) => refusal(&error),
        }
    })
}

/// Returns a router of the metrics alone.
pub(crate) fn metric_routes() -> Router<Arc<Answers>> {
    Router::new().route("/metrics", get(metrics))
}

async fn baseline(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    let body = match read(&headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    match serde_json::from_slice::<BaselineRequest>(&body) {
        Ok(request) if request.port.is_some() && request.node.is_none() => {
            refusal(&ErrorKind::BadRequest.error("port without node: give the node, as node=leaf-1"))
        }
        Ok(request) => show(answers.alone(move |s| s.set_baseline(&request)).await),
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body names no ports: {error}"))),
    }
}

async fn set(State(answers): Shared, query: Parameters) -> Response {
    let query = match parameters(query).and_then(|query| SetQuery::of(&query)) {
        Ok(query) => query,
        Err(error) => return refusal(&error),
    };
    let kind = if query.form == SetForm::Ldms { TEXT } else { CSV };
    let made = answers.made(move |service| Ok(service.metric_set(&query)?.into_bytes()));
    text(made.await, &[(header::CONTENT_TYPE, kind)])
}

async fn change_alarms(State(answers): Shared, headers: HeaderMap, body: RequestBody) -> Response {
    let body = match read(&headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    match serde_json::from_slice::<AlarmRequest>(&body) {
        Ok(request) => show(answers.small(move |s| s.change_alarms(&request)).await),
        Err(error) => refusal(&ErrorKind::BadRequest.error(format!("the body names no alarms: {error}"))),
    }
}

async fn picture(State(answers): Shared, query: Parameters) -> Response {
    let query = match parameters(query).and_then(|query| PictureQuery::of(&query)) {
        Ok(query) => query,
        Err(error) => return refusal(&error),
    };
    let kind = if query.dot { DOT } else { SVG };
    let made = answers.made(move |service| Ok(service.picture(query)?.into_bytes()));
    text(made.await, &[(header::CONTENT_TYPE, kind)])
}

async fn metrics(State(answers): Shared, headers: HeaderMap, query: Parameters) -> Response {
    let query = match parameters(query).and_then(|query| MetricsQuery::of(&query)) {
        Ok(query) => query,
        Err(error) => return refusal(&error),
    };
    let names = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|item| is_wanted(item, wanted))
    };
    let is_influx = query.influx;
    let is_open_metrics = names(header::ACCEPT, "application/openmetrics-text") && !is_influx;
    let is_gzip = names(header::ACCEPT_ENCODING, "gzip");
    let made = answers.made(move |service| page(&service.metrics(&query, is_open_metrics)?, is_gzip));
    let kind = match is_open_metrics {
        true => OPEN_METRICS,
        false if is_influx => TEXT,
        false => PROMETHEUS,
    };
    let vary = (header::VARY, "accept, accept-encoding");
    match is_gzip {
        true => text(
            made.await,
            &[(header::CONTENT_TYPE, kind), (header::CONTENT_ENCODING, "gzip"), vary],
        ),
        false => text(made.await, &[(header::CONTENT_TYPE, kind), vary]),
    }
}

/// True if an item of a header names what is wanted, and does not exclude it by a weight of 0.
fn is_wanted(item: &str, wanted: &str) -> bool {
    let mut parts = item.split(';').map(str::trim);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
    let weight = parts.find_map(|part| part.strip_prefix("q=")).map(str::parse::<f32>);
    is_named && !matches!(weight, Some(Ok(weight)) if weight <= 0.0)
}

/// Writes a page, compressed as it is written: as a text it would take 70 MB with 5,832 hosts.
fn page(metrics: &Metrics, is_gzip: bool) -> Result<Vec<u8>, Error> {
    let failed = |_| ErrorKind::Stopping.error("the metrics could not be written");
    if !is_gzip {
        let mut text = String::new();
        return metrics.write(&mut text).map(|()| text.into_bytes()).map_err(failed);
    }
    let encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    let mut out = Compressed(BufWriter::with_capacity(PIECE, encoder));
    metrics.write(&mut out).map_err(failed)?;
    let flushed = out.0.into_inner().map_err(io::Error::from);
    let finished = flushed.and_then(GzEncoder::finish);
    finished.map_err(|_| ErrorKind::Stopping.error("the metrics could not be compressed"))
}

/// A page of 34,992 ports must be below 3 MB. Of the levels of flate2, 4 gives the smallest page. Measured on 88 MB of
/// text: 2.8 MB in 0.42 s of processor time; level 3: 3.3 MB in 0.46 s; levels 5 to 9: 2.9 to 3.05 MB in 0.5 to 2 s.
const GZIP_LEVEL: u32 = 4;
/// Bytes that are compressed at once: the page is written in pieces of a few bytes.
const PIECE: usize = 1 << 16;

/// Compresses text.
struct Compressed(BufWriter<GzEncoder<Vec<u8>>>);

impl fmt::Write for Compressed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

fn text(made: Result<Bytes, Error>, headers: &[(HeaderName, &'static str)]) -> Response {
    match made {
        Ok(bytes) => {
            let mut response = (StatusCode::OK, bytes).into_response();
            for (name, value) in headers {
                let value = axum::http::HeaderValue::from_static(value);
                response.headers_mut().insert(name.clone(), value);
            }
            response
        }
        Err(error) => refusal(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_and_exclude() {
        let check = |item: &str, want: bool| assert_eq!(is_wanted(item, "gzip"), want, "{item}");
        check("gzip", true);
        check(" GZIP;q=0.5", true);
        check("gzip; q=0", false);
        check("gzip;q=0.0", false);
        check("deflate", false);
        check("", false);
    }
}
