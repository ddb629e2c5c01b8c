//! OpenSM's tables: one bring-up on ibsim, read back from its dump.

use std::fs;
use std::time::Duration;

use selvedge_conformance::{OpenSmOptions, PeerLab};
use selvedge_fabric::PortRef;
use selvedge_plan::{Lids, ServiceLevels, Tables};
use selvedge_topology::read_lfts;
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Guid, Lid};

use super::levels;
use super::pairs::Path;
use crate::case::Case;
use crate::error::BenchError;
use crate::opensm::stamp;

/// Longest wait for a bring-up.
const LIMIT: Duration = Duration::from_secs(180);
/// OperationalVLs code for 8 lanes: as most hardware has, and the most that ibsim has. Source: IBA vol 1 §14.2.5.6.
const EIGHT_LANES: u8 = 4;

/// Largest number of host pairs for which service levels are queried: more take too long.
const PAIRS_MAX: usize = 300_000;

/// The task of OpenSM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The engine, as for `-R`.
    pub engine: &'static str,
    /// `root_guid_file`; none if empty.
    pub roots: Vec<Guid>,
    /// Data lanes that the engine may use; `nue_max_num_vls` for nue.
    pub lanes: u8,
}

/// The result.
#[derive(Clone, Debug)]
pub enum Answer {
    /// OpenSM routed with the requested engine.
    Routed(Box<Routes>),
    /// OpenSM used another engine instead, as only its log shows.
    FellBack {
        /// The engine that OpenSM used.
        to: String,
        /// The first error in its log.
        why: String,
    },
}

/// OpenSM's tables.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Owners of LIDs.
    pub lids: Lids,
    /// Forwarding tables.
    pub tables: Tables,
    /// Service levels of paths.
    pub levels: Levels,
    /// Destinations that nue gave up on and routed over its escape tree, for nue.
    pub escapes: Option<usize>,
    /// Time from "building routing" to "tables configured" in OpenSM's log, in milliseconds.
    pub compute_ms: Option<f64>,
}

/// Service levels of paths; each is its lane as well, as OpenSM maps them by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Levels {
    /// By destination.
    PerDestination(ServiceLevels),
    /// By pair of hosts.
    PerPair(Vec<Path>),
    /// Not queried, because there are too many pairs.
    Unknown,
}

/// Brings a fresh fabric up with OpenSM and reads its tables.
pub fn run(case: &Case, request: &Request) -> Result<Answer, BenchError> {
    let lab = PeerLab::new()?;
    let _simulator = lab.ibsim_sized(&case.net, case.size)?;
    let options = OpenSmOptions {
        engine: request.engine.to_owned(),
        lines: lines(&lab, request)?,
        once: false,
        dump: true,
    };
    let mut opensm = lab.opensm(case.host_name(), &options)?;
    opensm.wait_up(1, LIMIT)?;
    let log = opensm.log();
    let not_up = |cause: String| BenchError::NotUp {
        manager: format!("OpenSM {}", request.engine),
        fabric: case.spec.clone(),
        cause,
    };
    let used = engine_used(&log).ok_or_else(|| not_up("its log does not name its engine".to_owned()))?;
    if used != request.engine {
        let why = first_error(&log);
        return Ok(Answer::FellBack { to: used, why });
    }
    let dump = opensm.file("opensm-lfts.dump")?;
    let read = read_lfts("opensm-lfts.dump", dump.as_bytes(), &case.fabric, None);
    let read = read.map_err(|error| not_up(error.to_string()))?;
    // Whatever is odd, the figures would be about something else.
    if let Some(odd) = read.warnings.first() {
        return Err(not_up(odd.to_string()));
    }
    let levels = levels(case, &lab, request, &read.lids)?;
    Ok(Answer::Routed(Box::new(Routes {
        lids: read.lids,
        tables: read.tables,
        levels,
        escapes: (request.engine == "nue").then(|| escapes(&log)),
        compute_ms: compute_ms(&log),
    })))
}

/// True if the engine distinguishes paths by service level.
fn uses_lanes(request: &Request) -> bool {
    matches!(request.engine, "dfsssp" | "lash") || request.engine == "nue" && request.lanes > 1
}

/// Queries the service levels of an engine that uses several.
fn levels(case: &Case, lab: &PeerLab, request: &Request, lids: &Lids) -> Result<Levels, BenchError> {
    if !uses_lanes(request) {
        return Ok(Levels::PerDestination(ServiceLevels::default()));
    }
    let is_host = |node| !case.fabric.node(node).is_switch();
    let hosts: Vec<Lid> = lids
        .by_lid()
        .filter(|&(_, at)| is_host(at.node))
        .map(|(lid, _)| lid)
        .collect();
    let port = case.host_port();
    let (Some(manager), Some(&first), Some(&last)) = (
        lids.base(PortRef { node: case.host, port }),
        hosts.first(),
        hosts.last(),
    ) else {
        return Ok(Levels::Unknown);
    };
    let per_destination = request.engine == "nue";
    let pairs: Vec<(Lid, Lid)> = if per_destination {
        let all = || lids.by_lid().map(|(lid, _)| lid);
        // From two ends: this checks that the source does not matter.
        all().map(|to| (first, to)).chain(all().map(|to| (last, to))).collect()
    } else {
        let from = |from: Lid| hosts.iter().filter(move |&&to| to != from).map(move |&to| (from, to));
        hosts.iter().flat_map(|&source| from(source)).collect()
    };
    if pairs.len() > PAIRS_MAX {
        return Ok(Levels::Unknown);
    }
    let mut port = IbsimPort::open(lab.base(), case.host_name())?;
    let found = levels::ask(&mut port, manager, &pairs)?;
    let paths = pairs
        .iter()
        .zip(found)
        .filter_map(|(&(from, to), sl)| Some((from, to, sl?)));
    if !per_destination {
        return Ok(Levels::PerPair(paths.collect()));
    }
    let mut by_lid = vec![None; lids.top().index() + 1];
    for (_, to, sl) in paths {
        match by_lid.get_mut(to.index()) {
            Some(known @ None) => *known = Some(sl),
            Some(Some(known)) if *known == sl => {}
            _ => return Ok(Levels::Unknown),
        }
    }
    let by_lid = by_lid.into_iter().map(Option::unwrap_or_default).collect();
    Ok(Levels::PerDestination(ServiceLevels::PerDestination(by_lid)))
}

/// Returns the lines of OpenSM's configuration. Files that they name go into the lab's folder.
fn lines(lab: &PeerLab, request: &Request) -> Result<Vec<String>, BenchError> {
    let store = |name: &str, text: String| -> Result<String, BenchError> {
        let path = lab.folder().join(name);
        fs::write(&path, text).map_err(BenchError::store("writing", path.display()))?;
        Ok(path.display().to_string())
    };
    // The line that routing begins is one of the few that only a chattier log has.
    let chatty = store("modules.conf", "osm_ucast_mgr.c 0x47\n".to_owned())?;
    let mut lines = vec![
        "sweep_interval 0".to_owned(),
        // Without QoS there is one lane, whatever the engine's options. With it OpenSM writes a table per pair of
        // ports.
        format!("qos {}", if uses_lanes(request) { "TRUE" } else { "FALSE" }),
        format!("max_op_vls {EIGHT_LANES}"),
        format!("nue_max_num_vls {}", request.lanes),
        format!("per_module_logging_file {chatty}"),
    ];
    if !request.roots.is_empty() {
        let roots: String = request.roots.iter().map(|guid| format!("{guid}\n")).collect();
        lines.push(format!("root_guid_file {}", store("roots.conf", roots)?));
    }
    Ok(lines)
}

/// The engine of the last installed tables.
fn engine_used(log: &str) -> Option<String> {
    let mut lines = log.lines().rev();
    let before = lines
        .find_map(|line| line.split_once(" tables configured on all switches"))?
        .0;
    Some(before.rsplit(' ').next()?.to_owned())
}

/// Returns the first error in the log, without time, thread and function.
fn first_error(log: &str) -> String {
    let errors = log.lines().filter_map(|line| line.split_once("] 0x01 -> "));
    let mut errors = errors.map(|(_, text)| text.trim().to_owned());
    errors.next().unwrap_or_else(|| "no reason given".to_owned())
}

/// Destinations on nue's escape tree in the last routing.
fn escapes(log: &str) -> usize {
    let lines = log
        .lines()
        .rev()
        .take_while(|line| !line.contains("building routing with"));
    lines
        .filter(|line| line.contains("fallback to escape paths for destination"))
        .count()
}

/// Returns the time from the last line "building routing" to the last line "tables configured".
fn compute_ms(log: &str) -> Option<f64> {
    let last = |text: &str| log.lines().rev().find(|line| line.contains(text)).and_then(stamp);
    let (start, end) = (
        last("building routing with")?,
        last("tables configured on all switches")?,
    );
    let day_us = 86_400_000_000;
    // Stamps have no year; a run is shorter than a day, so midnight is the only wrap.
    Some(((end + day_us - start) % day_us) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs() {
        let check = |log: &str, used: Option<&str>, why: &str, ms: Option<f64>| {
            let got = (engine_used(log), first_error(log), compute_ms(log));
            assert_eq!(got, (used.map(str::to_owned), why.to_owned(), ms), "{log}");
        };
        // From OpenSM 3.3.23 with `-R updn` on a fabric without roots.
        let fell_back = "Nov 21 21:21:55 927702 [9D953740] 0x03 -> OpenSM 3.3.23
Nov 21 21:21:55 939000 [9A94C6C0] 0x02 -> ucast_mgr_route: building routing with 'updn' routing algorithm...
Nov 21 21:21:55 939203 [9A94C6C0] 0x01 -> ucast_mgr_route: updn: cannot build lid matrices
Nov 21 21:21:55 939204 [9A94C6C0] 0x02 -> ucast_mgr_route: building routing with 'minhop' routing algorithm...
Nov 21 21:21:55 939704 [9A94C6C0] 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches
Nov 21 21:21:55 939935 [9A94C6C0] 0x02 -> SUBNET UP";
        let why = "ucast_mgr_route: updn: cannot build lid matrices";
        check(fell_back, Some("minhop"), why, Some(0.5));
        check("", None, "no reason given", None);
    }
}
