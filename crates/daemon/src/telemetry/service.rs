//! The requests of front ends about what counters mean.

use selvedge_api::{
    AlarmQuery, AlarmRequest, Alarms, CableQuery, Cables, Congestion, CongestionQuery, Error, ErrorKind, PictureQuery,
};

use super::{alarms, cables, congestion};
use crate::service::Manager;

/// The requests of front ends about what counters mean. A process without a manager refuses them.
pub trait TelemetryService {
    /// Returns the alarms that a query asks for.
    fn alarms(&self, _query: &AlarmQuery) -> Result<Alarms, Error> {
        Err(no_manager())
    }

    /// Acknowledges or clears alarms.
    fn change_alarms(&self, _request: &AlarmRequest) -> Result<Alarms, Error> {
        Err(no_manager())
    }

    /// Returns the links that ports wait for.
    fn congestion(&self, _query: &CongestionQuery) -> Result<Congestion, Error> {
        Err(no_manager())
    }

    /// Returns the cables, the worst first.
    fn cables(&self, _query: &CableQuery) -> Result<Cables, Error> {
        Err(no_manager())
    }

    /// Returns a picture of the fabric's loads, as SVG or as a Graphviz graph.
    fn picture(&self, _query: PictureQuery) -> Result<String, Error> {
        Err(no_manager())
    }
}

fn no_manager() -> Error {
    ErrorKind::NoManager.error("this process only emulates a fabric")
}

impl TelemetryService for Manager {
    fn alarms(&self, query: &AlarmQuery) -> Result<Alarms, Error> {
        alarms::list(&self.shared, query)
    }

    fn change_alarms(&self, request: &AlarmRequest) -> Result<Alarms, Error> {
        alarms::change(&self.shared, request)
    }

    fn congestion(&self, query: &CongestionQuery) -> Result<Congestion, Error> {
        congestion::shown(&self.shared, query)
    }

    fn cables(&self, query: &CableQuery) -> Result<Cables, Error> {
        cables::shown(&self.shared, query)
    }

    fn picture(&self, query: PictureQuery) -> Result<String, Error> {
        congestion::picture(&self.shared, query)
    }
}
