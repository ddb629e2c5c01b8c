//! `selvedge topology approve`: takes the fabric that a manager sees as the expected topology.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use selvedge_api as api;
use selvedge_fabric::{Change, Fabric, FabricBuilder, LinkState, Node, diff};
use selvedge_http::Client;
use selvedge_topology::{Format as FileFormat, NodeNames, write};
use selvedge_types::{Guid, LinkSpeed, LinkWidth, PhysState, PortNum, PortState, Rate};

use crate::ask::AskArgs;
use crate::exit::{CliError, Exit};
use crate::load;

/// How often nodes and ports are requested again if a sweep between the two answers makes them disagree.
const TRIES: usize = 3;

/// Take the fabric that the manager sees as the expected one, and list the differences from the former file
#[derive(Args, Debug)]
pub struct ApproveArgs {
    /// The file to write, as ibnetdiscover prints a fabric: that of 'selvedge run --expected FILE'
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only list the differences; write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    ask: AskArgs,
}

impl ApproveArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.ask.json()
    }
}

/// Runs the command.
pub fn run(args: &ApproveArgs) -> Result<Exit, CliError> {
    let client = args.ask.client();
    let now = seen(&client)?;
    let before = previous(&args.file)?;
    let changes = match &before {
        Some(before) => changes(&args.file, before, &now)?,
        None => Vec::new(),
    };
    if !args.dry_run {
        load::write(
            &args.file,
            &write(&now, FileFormat::Ibnetdiscover, &NodeNames::default()),
        )?;
        // A manager that compares with this file reads it again after its next sweep.
        client.post("sweep")?;
    }
    let switches = now.switches().len();
    let approval = api::Approval {
        file: args.file.display().to_string(),
        written: !args.dry_run,
        is_new: before.is_none(),
        switches: switches as u64,
        hosts: now.host_count() as u64,
        links: now.links().count() as u64,
        changes,
    };
    args.ask.print(approval, text)?;
    Ok(Exit::Good)
}

fn text(approval: &api::Approval) -> Vec<String> {
    let mut lines = approval.changes.clone();
    let (verb, file) = match approval.written {
        true => ("approved", &approval.file),
        false => ("would approve", &approval.file),
    };
    let differs = match (approval.is_new, approval.changes.len()) {
        (true, _) => "there was no such file before".to_owned(),
        (false, 0) => "nothing differs from the file before".to_owned(),
        (false, 1) => "1 difference from the file before".to_owned(),
        (false, count) => format!("{count} differences from the file before"),
    };
    let (switches, hosts, links) = (approval.switches, approval.hosts, approval.links);
    lines.push(format!(
        "{verb}: {switches} switches, {hosts} hosts, {links} links in {file}; {differs}"
    ));
    lines
}

/// Returns the topology that the file states; `None` if there is no such file.
fn previous(file: &Path) -> Result<Option<Fabric>, CliError> {
    if !file.exists() {
        return Ok(None);
    }
    let bytes = load::text_bytes(file)?;
    Ok(Some(
        selvedge_topology::read(&file.display().to_string(), &bytes)?.fabric,
    ))
}

/// Returns the differences that an operator approves, in words: nodes, links, and their rates.
fn changes(file: &Path, before: &Fabric, now: &Fabric) -> Result<Vec<String>, CliError> {
    if let Err(other) = selvedge_topology::deviations(before, now) {
        return Err(CliError::OtherTopology {
            path: file.to_owned(),
            why: other.to_string(),
        });
    }
    let is_approved = |change: &&Change| {
        matches!(
            change,
            Change::NodeAdded { .. }
                | Change::NodeRemoved { .. }
                | Change::LinkAdded { .. }
                | Change::LinkRemoved { .. }
                | Change::RateChanged { .. }
        )
    };
    let changes = diff(before, now).changes;
    Ok(changes.iter().filter(is_approved).map(ToString::to_string).collect())
}

/// Asks the manager for the fabric that it sees.
fn seen(client: &Client) -> Result<Fabric, CliError> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let nodes: api::Nodes = client.get("nodes")?;
        let ports: api::Ports = client.get("ports")?;
        match fabric(&nodes, &ports) {
            Ok(fabric) => return Ok(fabric),
            Err(why) => last = why,
        }
    }
    Err(CliError::Unsteady { why: last })
}

/// Builds the fabric of these answers: links that are up, and the nodes that they lead to. A link that is down now, and
/// a node without a link, are not approved.
fn fabric(nodes: &api::Nodes, ports: &api::Ports) -> Result<Fabric, String> {
    let is_up = |port: &&api::Port| port.width.is_some() && port.peer.is_some();
    let mut up: BTreeMap<(Guid, u8), &api::Port> = BTreeMap::new();
    for port in ports.ports.iter().filter(is_up) {
        up.insert((port.node_guid, port.port), port);
    }
    let mut builder = FabricBuilder::new();
    let mut keys = BTreeMap::new();
    for node in &nodes.nodes {
        let linked = up.range((node.guid, 0)..=(node.guid, u8::MAX)).next().is_some();
        if !linked && nodes.nodes.len() > 1 {
            continue;
        }
        let mut built = Node::new(node.kind, node.guid, node.ports, &*node.name);
        (built.system_guid, built.vendor_id, built.device_id) = (node.system_guid, node.vendor_id, node.device_id);
        keys.insert(node.guid, builder.add(built));
    }
    for port in &ports.ports {
        let Some(&key) = keys.get(&port.node_guid) else {
            continue;
        };
        let none = || format!("\"{}\" has no port {}", port.node_name, port.port);
        let number = PortNum::new(port.port).ok_or_else(none)?;
        let built = builder.node_mut(key).port_mut(number).ok_or_else(none)?;
        built.guid = port.guid.unwrap_or(Guid::NONE);
        if is_up(&port) {
            built.link = LinkState {
                state: port.state.unwrap_or(PortState::Active),
                phys: PhysState::LinkUp,
                rate: Rate {
                    width: port.width.unwrap_or(LinkWidth::X4),
                    speed: port.speed.unwrap_or(LinkSpeed::Unknown),
                },
            };
        }
    }
    for ((node, number), port) in &up {
        let Some(far) = &port.peer else { continue };
        // The other end may be down or silent: it is a link all the same.
        let ends = [(*node, *number), (far.node_guid, far.port)].map(|(node, number)| {
            let key = keys.get(&node).copied();
            key.zip(PortNum::new(number))
        });
        let [Some(a), Some(b)] = ends else {
            return Err(format!(
                "a cable of \"{}\" leads to a node that is not there",
                port.node_name
            ));
        };
        builder.link(a, b).map_err(|error| error.to_string())?;
    }
    builder.finish().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(spec: &str) -> Fabric {
        let fabric = load::fabric(spec).unwrap();
        // As a manager finds it: links are up.
        let mut builder = FabricBuilder::new();
        let mut keys = Vec::new();
        for node in fabric.nodes().iter() {
            let mut node = node.clone();
            let cabled: Vec<PortNum> = node
                .external_ports()
                .filter(|(_, port)| port.peer.is_some())
                .map(|(number, _)| number)
                .collect();
            for number in cabled {
                let link = &mut node.port_mut(number).unwrap().link;
                (link.state, link.phys) = (PortState::Active, PhysState::LinkUp);
            }
            keys.push(builder.add(node));
        }
        for link in fabric.links() {
            let [a, b] = [link.a, link.b].map(|at| (keys[at.node.0 as usize], at.port));
            builder.link(a, b).unwrap();
        }
        builder.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_what_the_manager_sees() {
        for spec in ["mport:m=4,n=2", "sx6536", "ring:switches=5,hosts=2", "karytree:k=4,n=3"] {
            let found = generated(spec);
            let ports = api::ports(&found, |_| true, |_| None);
            let built = fabric(&api::nodes(&found), &ports).unwrap();
            let text = write(&built, FileFormat::Ibnetdiscover, &NodeNames::default());
            let read = selvedge_topology::read("test", text.as_bytes()).unwrap().fabric;
            assert_eq!(selvedge_topology::deviations(&read, &found).unwrap(), [], "{spec}");
            assert_eq!(selvedge_topology::deviations(&found, &read).unwrap(), [], "{spec}");
            let count = |fabric: &Fabric| (fabric.nodes().len(), fabric.links().count());
            assert_eq!(count(&read), count(&found), "{spec}");
            assert!(count(&read).1 > 0, "{spec}");
            assert_eq!(changes(Path::new("test"), &read, &found).unwrap(), [""; 0], "{spec}");
        }
    }

    #[test]
    fn answers_that_disagree_are_refused() {
        let found = generated("mport:m=4,n=2");
        let (mut nodes, ports) = (api::nodes(&found), api::ports(&found, |_| true, |_| None));
        let gone = nodes.nodes.pop().unwrap();
        let error = fabric(&nodes, &ports).unwrap_err();
        assert!(error.contains("leads to a node that is not there"), "{error}");
        nodes.nodes.push(api::Node { ports: 0, ..gone });
        let error = fabric(&nodes, &ports).unwrap_err();
        assert!(error.contains("has no port"), "{error}");
    }
}
