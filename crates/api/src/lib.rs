//! Requests and responses: what every front end shows.
//!
//! The command line's `--json`, the HTTP API and the web pages use only these types, so all three show the same values.
//! The types compile without the daemon. A [`Document`] puts `schema` and `version` in front. If a number has a unit,
//! its name ends with the unit.

mod administration;
mod apm;
mod backups;
mod change;
mod command;
mod document;
mod error;
mod event;
mod fault;
mod finding;
mod health;
mod intake;
mod inventory;
mod jobs;
mod migration;
mod model;
mod out_of_service;
mod partition;
mod plan;
mod query;
mod rebalance;
mod routing;
mod select;
mod simulation;
mod soak;
mod status;
mod telemetry;
mod transition;

pub use administration::Administration;
pub use apm::{
    AlternateFault, AlternateLeg, AlternatePath, AlternatePaths, AlternateRefusal, AlternateShare, Alternates,
};
pub use backups::{Backup, Backups, InPlace, InPlaceRun};
pub use change::{PolicyChange, PolicyChanges, WouldSend, WouldSet};
pub use command::{
    Accepted, Check, CheckRequest, Decoded, Diff, ExperimentCheck, ExperimentSetting, ExperimentSettings,
    ExperimentSummary, OpenSmCheck, OpenSmLine, Replay, ReplayDifference, ReplayTorn, Settings,
};
pub use document::{Body, Document};
pub use error::{Error, ErrorKind};
pub use event::{Event, EventQuery, Events, Severity};
pub use fault::{FaultReport, FaultRequest};
pub use finding::{Finding, Findings, RefusedPlan};
pub use health::{Approval, Condition, ForgetRequest, Forgotten, Health, NodeName, Place};
pub use intake::{Babbler, Intake};
pub use inventory::{
    End, Fabric, Link, Links, Node, Nodes, Port, Ports, RateCount, ReasonCount, StateCounts, count_reasons, links,
    nodes, ports,
};
pub use jobs::{
    Job, JobClass, JobEndRequest, JobEnded, JobExplained, JobRequest, JobStarted, JobVariable, JobWait, Jobs,
};
pub use migration::{Migration, MigrationError, MigrationFault, MigrationRun};
pub use model::{Model, ModelAnswer, ModelCount, ModelPaper, ModelPaperRow, ModelStage};
pub use out_of_service::{
    OutOfService, OutOfServiceChange, OutOfServiceFigures, OutOfServicePlace, OutOfServiceRequest,
};
pub use partition::{Partition, PartitionMember, PartitionRule, Partitions};
pub use plan::{Changes, Plan, Reroute};
pub use rebalance::{LinkLoad, Rebalance, RebalanceRequest, RebalanceStatus};
pub use routing::{Comparison, ComparisonRow, ComparisonRun, Cost, Quality, Routing};
pub use select::{Field, ORDER, Rows, SORT, Selection};
pub use simulation::{SimulatedJob, Simulation};
pub use soak::{
    Soak, SoakCoverage, SoakDifference, SoakDigest, SoakDigests, SoakExemption, SoakFailure, SoakReal, SoakRealFinding,
    SoakRealRun,
};
pub use status::{
    Application, ApplicationStep, ApplicationWait, FoundTables, LocalPort, MadCounts, MulticastGroup, NotStored,
    OwnTables, Progress, Role, Run, SilentNodes, Stage, Status,
};
pub use telemetry::{
    Acknowledged, Alarm, AlarmAction, AlarmCleared, AlarmQuery, AlarmRequest, Alarms, BitErrorRate, Cable, CableInfo,
    CableQuery, CableReadings, Cables, Congestion, CongestionQuery, CongestionTree, CrossingPair, PictureQuery, Shade,
    WaitingPort,
};
pub use telemetry::{
    Baseline, BaselineRequest, CounterQuery, HistoryState, MetricSetEntry, MetricSets, MetricsQuery, MissingReason,
    SeriesQuery, SetForm, SetQuery, SilentNode, SliceQuery, StoredEvent, StoredEventQuery, StoredEvents, Telemetry,
    TelemetryClass, TelemetryCounter, TelemetryGap, TelemetryHistory, TelemetryPoint, TelemetryPort, TelemetryPorts,
    TelemetryRequests, TelemetrySeries, TelemetrySlice, TelemetrySlicePort, TelemetrySlot, TelemetryState, TimeRange,
    Topology, TopologyLink, TopologyNode, TopologyQuery, TopologyVersion, TopologyVersions,
};
pub use transition::{Transition, TransitionStep};
