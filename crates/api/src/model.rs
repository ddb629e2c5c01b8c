//! Answers of the analytic model.

use serde::{Deserialize, Serialize};

use crate::Body;

/// The predicted cost of bring-up and faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The fabric as named in the request.
    pub fabric: String,
    /// The node to which the manager is attached.
    pub seat: String,
    /// Switches that can be reached.
    pub switches: u64,
    /// Other nodes that can be reached.
    pub hosts: u64,
    /// Number of LIDs that are given out.
    pub lids: u64,
    /// False if a subnet does not have this number of LIDs.
    pub lids_fit: bool,
    /// Blocks of 64 LIDs in a forwarding table.
    pub lft_blocks: u64,
    /// Time that an agent takes for one MAD.
    pub mad_us: f64,
    /// Time of a MAD in a cable.
    pub link_ns: u64,
    /// Time that a switch takes to relay a MAD.
    pub relay_ns: u64,
    /// Exchanges that are lost, of a million.
    pub lost_ppm: u32,
    /// The answers.
    pub answers: Vec<ModelAnswer>,
}

impl Body for Model {
    const SCHEMA: &'static str = "selvedge.model";
}

/// The answer to one question for one manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// `bring-up`, `link fault` or `switch fault`.
    pub question: String,
    /// `selvedge` or `OpenSM`.
    pub manager: String,
    /// How the fabric recovers from the fault: `sweep` or `fail-over`; absent for a bring-up.
    pub recovery: Option<String>,
    /// The switch, or a port of the link, that is lost; absent for a bring-up.
    pub lost: Option<String>,
    /// Largest number of requests in flight.
    pub window: u32,
    /// Total time.
    pub time_ms: f64,
    /// MADs of all senders; answers do not count.
    pub mads: u64,
    /// Requests that find an agent's queue full, and are sent again.
    pub overruns: u64,
    /// Requests that are expected to be lost and sent again.
    pub repeats: u64,
    /// First to last.
    pub stages: Vec<ModelStage>,
    /// Number of MADs by method and attribute, without repeats.
    pub counts: Vec<ModelCount>,
}

/// A stage. The next stage begins when this one has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStage {
    /// Name of the stage.
    pub stage: String,
    /// Duration of the stage.
    pub time_ms: f64,
}

/// MADs of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCount {
    /// Method.
    pub method: String,
    /// Attribute.
    pub attribute: String,
    /// Number of these MADs.
    pub count: u64,
}

/// Tables 1 and 2 of the published model, next to the results of its equations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPaper {
    /// One row for each table and phase.
    pub rows: Vec<ModelPaperRow>,
}

impl Body for ModelPaper {
    const SCHEMA: &'static str = "selvedge.model_paper";
}

/// A phase of a table of the published model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPaperRow {
    /// Number of the table.
    pub table: u8,
    /// Ports of a switch and levels, as `(8, 1)`.
    pub tree: String,
    /// `t_TD`, `t_PC` or `t_PD`.
    pub phase: String,
    /// Time measured by the paper.
    pub experiment_ms: f64,
    /// The result of the paper's model.
    pub paper_model_ms: f64,
    /// The result of the equations as printed.
    pub equations_ms: f64,
    /// Difference of the equations from the paper's model, in percent.
    pub difference_percent: f64,
    /// The reason for the difference.
    pub why: String,
}
