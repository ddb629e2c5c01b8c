//! The bytes of a record.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_config::Settings;
use selvedge_health::{Known, LinkKey};
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::{Member, MulticastGroup};
use selvedge_plan::partition::Partition;
use selvedge_plan::{EngineName, Generation, OutOfService, Policy};
use selvedge_planner::JobId;
use selvedge_sim::Time;
use selvedge_sm::{Asked, Command, Input, Mode, PersistentState, ToldLevels};
use selvedge_store::{
    PlanState, parse_guid2lid, parse_known_fabric, parse_plan_state, print_guid2lid, print_known_fabric,
    print_plan_state,
};
use selvedge_types::{Guid, Lid, Mtu, PortNum, SecretKey, Sl};
use selvedge_wire::{Datagram, LocalPort};

use super::bytes::{Reader, put_datagram, put_text};
use super::job_partitions;
use super::settings_text::{settings_of, settings_text};

/// The beginning of every record: name and version of the format.
pub(super) const MAGIC: &[u8; 8] = b"SLVREC05";

/// The start of a recorded manager: its configuration and state.
#[derive(Clone, Debug)]
pub struct Header {
    /// The mode: what the manager is allowed to do.
    pub mode: Mode,
    /// The port of the manager.
    pub local: LocalPort,
    /// Policy and manager's options.
    pub settings: Settings,
    /// Stored state of the manager.
    pub state: PersistentState,
    /// Nodes and links that the manager had found.
    pub known: Arc<Known>,
}

/// An input as it is stored.
#[derive(Clone, Debug)]
pub enum RecordedInput {
    /// [`Input::Start`].
    Start,
    /// [`Input::Received`].
    Received(Datagram),
    /// [`Input::Returned`].
    Returned(Datagram),
    /// [`Input::Wake`].
    Wake,
    /// [`Input::Computed`]. Its result is not stored but computed again.
    Computed(JobId),
    /// [`Input::Persisted`].
    Persisted(u64),
    /// [`Input::NotPersisted`].
    NotPersisted(u64),
    /// [`Command::Sweep`].
    Sweep,
    /// [`Command::Rebalance`].
    Rebalance(Asked),
    /// [`Command::SetPolicy`].
    SetPolicy(Arc<Policy>),
    /// [`Command::SetSmKey`].
    SetSmKey(SecretKey),
    /// [`Input::Aliases`].
    Aliases(Vec<PortAliases>),
    /// [`Input::Groups`].
    Groups(Vec<MulticastGroup>),
    /// [`Command::Reregister`].
    Reregister,
    /// [`Command::ReregisterThese`].
    ReregisterThese(BTreeSet<Guid>),
    /// [`Command::Babbles`].
    Babbles(Lid, Option<u8>),
    /// [`Command::Doubt`].
    Doubt(BTreeSet<Guid>),
    /// [`Command::Registered`].
    Registered,
    /// [`Command::Unproven`].
    Unproven,
    /// [`Command::HoldBack`].
    HoldBack,
    /// [`Command::Ready`].
    Ready,
    /// [`Command::Told`].
    Told(ToldLevels),
    /// [`Command::OutOfService`].
    OutOfService(Arc<OutOfService>),
    /// [`Command::JobPartitions`].
    JobPartitions(Vec<Partition>),
    /// [`Command::Forget`].
    Forget(BTreeSet<Guid>, BTreeSet<LinkKey>),
    /// [`Command::Stop`].
    Stop,
    /// A datagram from a host to the administrator beside the manager; no input of the manager.
    Asked(Datagram),
    /// Not an input of the manager: a datagram from the administrator to a host.
    Said(Datagram),
}

/// One input, and the digest of its outputs.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The time of the input.
    pub time: Time,
    /// The input.
    pub input: RecordedInput,
    /// Outputs of the recorded manager: their number and digest; none if it ended while it handled the input.
    pub outputs: Option<(u32, u64)>,
}

impl std::fmt::Display for RecordedInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Received(datagram) => write!(f, "received lid={} {}", datagram.address.lid, datagram.mad),
            Self::Returned(datagram) => write!(f, "returned lid={} {}", datagram.address.lid, datagram.mad),
            Self::Wake => f.write_str("wake"),
            Self::Computed(job) => write!(f, "computed job {job}"),
            Self::Persisted(id) => write!(f, "stored {id}"),
            Self::NotPersisted(id) => write!(f, "not stored {id}"),
            Self::Sweep => f.write_str("command sweep"),
            Self::Rebalance(Asked { at_once: false }) => f.write_str("command rebalance"),
            Self::Rebalance(Asked { at_once: true }) => f.write_str("command rebalance at once"),
            Self::SetPolicy(_) => f.write_str("command set policy"),
            Self::OutOfService(list) => write!(f, "command list {} places out of service", list.len()),
            Self::JobPartitions(list) => write!(f, "command partitions of {} jobs", list.len()),
            Self::SetSmKey(_) => f.write_str("command set SM_Key"),
            Self::Aliases(ports) => write!(f, "alias GUIDs of {} ports", ports.len()),
            Self::Groups(groups) => write!(f, "groups {}", groups.len()),
            Self::Reregister => f.write_str("command reregister"),
            Self::ReregisterThese(ports) => write!(f, "command reregister {} ports", ports.len()),
            Self::Babbles(lid, _) => write!(f, "command: LID {lid} babbles"),
            Self::Doubt(ports) => write!(f, "command doubt {} ports", ports.len()),
            Self::Registered => f.write_str("command registered"),
            Self::Unproven => f.write_str("command unproven"),
            Self::HoldBack => f.write_str("command hold back"),
            Self::Ready => f.write_str("command ready"),
            Self::Told(told) => write!(
                f,
                "command told {} ports on {} lanes by {}",
                told.by_port.len(),
                told.lanes,
                told.by
            ),
            Self::Asked(datagram) => write!(f, "administrator: from lid={} {}", datagram.address.lid, datagram.mad),
            Self::Said(datagram) => write!(f, "administrator: to lid={} {}", datagram.address.lid, datagram.mad),
            Self::Forget(nodes, links) => write!(f, "command forget {} nodes, {} links", nodes.len(), links.len()),
            Self::Stop => f.write_str("command stop"),
        }
    }
}

impl Header {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.push(match self.mode {
            Mode::Manage => 0,
            Mode::DryRun => 1,
            Mode::Watch => 2,
        });
        out.extend(self.local.node_guid.0.to_le_bytes());
        out.extend(self.local.port_guid.0.to_le_bytes());
        out.push(self.local.port.get());
        put_text(out, &settings_text(&self.settings));
        put_text(out, &print_guid2lid(&self.state.lids));
        let state = &self.state;
        put_text(
            out,
            &print_plan_state(&PlanState {
                generation: state.generation.0,
                lanes: state.lanes.clone(),
                levels: state.levels.clone(),
                lids_before: state.lids_before.clone(),
                lids_aside: state.lids_aside.clone(),
                engines: state.engines.iter().map(|engine| engine.0.clone()).collect(),
                lane_count: state.lane_count,
                lanes_wanted: state.lanes_wanted,
                m_keys: state.m_keys.clone(),
                m_keys_retired: state.m_keys_retired.clone(),
                sm_keys: state.sm_keys.clone(),
            }),
        );
        // The contents of a file are of an earlier run.
        put_text(out, &print_known_fabric(&self.known, |_| 0));
    }

    pub(super) fn take(reader: &mut Reader<'_>) -> Result<Self, String> {
        if reader.take(MAGIC.len()) != Some(MAGIC) {
            return Err("it does not begin with SLVREC05".to_owned());
        }
        let cut = || "it ends inside its header".to_owned();
        let mode = match reader.u8().ok_or_else(cut)? {
            0 => Mode::Manage,
            1 => Mode::DryRun,
            2 => Mode::Watch,
            other => return Err(format!("mode {other} is unknown")),
        };
        let local = LocalPort {
            node_guid: Guid(reader.u64().ok_or_else(cut)?),
            port_guid: Guid(reader.u64().ok_or_else(cut)?),
            port: reader.u8().and_then(PortNum::new).ok_or_else(cut)?,
        };
        let settings = settings_of(reader.text().ok_or_else(cut)?, "its settings")?;
        let lids = parse_guid2lid(reader.text().ok_or_else(cut)?.as_bytes());
        let lids = lids.map_err(|(line, error)| format!("its LIDs, line {line}: {error}"))?;
        let plan = parse_plan_state(reader.text().ok_or_else(cut)?.as_bytes());
        let plan = plan.map_err(|error| format!("its plan state: {error}"))?;
        let known = parse_known_fabric(reader.text().ok_or_else(cut)?.as_bytes());
        let known = known.map_err(|line| format!("its known nodes, line {line}"))?;
        Ok(Self {
            mode,
            local,
            settings,
            state: PersistentState {
                lids,
                lids_before: plan.lids_before,
                lids_aside: plan.lids_aside,
                generation: Generation(plan.generation),
                lanes: plan.lanes,
                levels: plan.levels,
                engines: plan.engines.into_iter().map(EngineName).collect(),
                lane_count: plan.lane_count,
                lanes_wanted: plan.lanes_wanted,
                m_keys: plan.m_keys,
                m_keys_retired: plan.m_keys_retired,
                sm_keys: plan.sm_keys,
            },
            known: Arc::new(known),
        })
    }
}

pub(super) fn put_guids(out: &mut Vec<u8>, ports: &BTreeSet<Guid>) {
    out.extend(length(ports.len()));
    ports.iter().for_each(|guid| out.extend(guid.0.to_le_bytes()));
}

/// Appends an input. Its outputs follow when they are known.
pub(super) fn put_input(out: &mut Vec<u8>, time: Time, input: &Input) {
    let mut begin = |tag: u8| {
        out.push(tag);
        out.extend(time.0.to_le_bytes());
    };
    match input {
        Input::Start => begin(0),
        Input::Received(datagram) => {
            begin(1);
            put_datagram(out, datagram);
        }
        Input::Returned(datagram) => {
            begin(2);
            put_datagram(out, datagram);
        }
        Input::Wake => begin(3),
        Input::Computed { id, .. } => {
            begin(4);
            out.extend(id.0.to_le_bytes());
        }
        Input::Persisted { id } => {
            begin(5);
            out.extend(id.to_le_bytes());
        }
        Input::NotPersisted { id } => {
            begin(24);
            out.extend(id.to_le_bytes());
        }
        Input::Aliases(ports) => {
            begin(22);
            put_aliases(out, ports);
        }
        Input::Groups(groups) => {
            begin(20);
            put_groups(out, groups);
        }
        Input::Command(command) => put_command(out, time, command),
    }
}

fn put_command(out: &mut Vec<u8>, time: Time, command: &Command) {
    let mut begin = |tag: u8| {
        out.push(tag);
        out.extend(time.0.to_le_bytes());
    };
    match command {
        Command::Sweep => begin(6),
        Command::SetPolicy(policy) => {
            begin(7);
            let settings = Settings {
                policy: Policy::clone(policy),
                ..Settings::default()
            };
            put_text(out, &settings_text(&settings));
        }
        Command::Forget { nodes, links } => {
            begin(26);
            put_guids(out, nodes);
            put_links(out, links);
        }
        Command::OutOfService(list) => {
            begin(31);
            put_text(out, &list.to_text());
        }
        Command::JobPartitions(list) => {
            begin(32);
            job_partitions::put(out, list);
        }
        Command::SetSmKey(key) => {
            begin(30);
            out.extend(key.expose().to_le_bytes());
        }
        Command::Stop => begin(8),
        Command::Reregister => begin(11),
        Command::ReregisterThese(ports) => {
            begin(18);
            put_guids(out, ports);
        }
        Command::Doubt(ports) => {
            begin(23);
            put_guids(out, ports);
        }
        Command::Registered => begin(12),
        Command::Unproven => begin(21),
        Command::HoldBack => begin(13),
        Command::Ready => begin(14),
        Command::Babbles { lid, port } => {
            begin(25);
            put_babbler(out, *lid, *port);
        }
        Command::Told(told) => {
            begin(15);
            put_told(out, told);
        }
        Command::Rebalance(asked) => begin(9 + u8::from(asked.at_once)),
    }
}

/// Bits of a group's MTU code, below its service level.
const SL_SHIFT: u8 = 4;

/// Appends a datagram between a host and the administrator.
pub(super) fn put_said(out: &mut Vec<u8>, time: Time, is_ours: bool, datagram: &Datagram) {
    out.push(16 + u8::from(is_ours));
    out.extend(time.0.to_le_bytes());
    put_datagram(out, datagram);
}

/// Returns the length of a list as stored. LIDs have 16 bits, so no list of groups or ports is too long.
fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}

pub(super) fn take_guids(reader: &mut Reader<'_>) -> Option<BTreeSet<Guid>> {
    (0..reader.u32()?).map(|_| reader.u64().map(Guid)).collect()
}

fn put_links(out: &mut Vec<u8>, links: &BTreeSet<LinkKey>) {
    out.extend(length(links.len()));
    for (node, port) in links.iter().flat_map(|&(a, b)| [a, b]) {
        out.extend(node.0.to_le_bytes());
        out.push(port.get());
    }
}

fn take_forget(reader: &mut Reader<'_>) -> Option<RecordedInput> {
    let nodes = take_guids(reader)?;
    let count = reader.u32()?;
    let mut end = || Some((Guid(reader.u64()?), PortNum::new(reader.u8()?)?));
    let links: Option<BTreeSet<LinkKey>> = (0..count).map(|_| Some((end()?, end()?))).collect();
    Some(RecordedInput::Forget(nodes, links?))
}

fn take_list(reader: &mut Reader<'_>) -> Result<Option<RecordedInput>, Bad> {
    let list = reader.text().map(OutOfService::parse).transpose();
    let list = list.map_err(|(_, fault)| Bad::Kind(fault.to_string()))?;
    Ok(list.map(|list| RecordedInput::OutOfService(Arc::new(list))))
}

fn put_told(out: &mut Vec<u8>, told: &ToldLevels) {
    out.extend(told.by.0.to_le_bytes());
    let state = PlanState {
        levels: told.by_port.clone(),
        lane_count: told.lanes,
        ..PlanState::default()
    };
    put_text(out, &print_plan_state(&state));
}

fn put_babbler(out: &mut Vec<u8>, lid: Lid, port: Option<u8>) {
    out.extend(lid.0.to_le_bytes());
    out.extend([u8::from(port.is_some()), port.unwrap_or_default()]);
}

fn take_babbler(reader: &mut Reader<'_>) -> Option<(Lid, Option<u8>)> {
    let (lid, is_named, port) = (Lid(reader.u16()?), reader.u8()? != 0, reader.u8()?);
    Some((lid, is_named.then_some(port)))
}

fn put_aliases(out: &mut Vec<u8>, ports: &[PortAliases]) {
    out.extend(length(ports.len()));
    for PortAliases { port, guids } in ports {
        out.extend(port.0.to_le_bytes());
        out.extend(length(guids.len()));
        for (entry, guid) in guids {
            out.push(*entry);
            out.extend(guid.0.to_le_bytes());
        }
    }
}

fn take_aliases(reader: &mut Reader<'_>) -> Option<Vec<PortAliases>> {
    let mut ports = Vec::new();
    for _ in 0..reader.u32()? {
        let port = Guid(reader.u64()?);
        let entries = reader.u32()?;
        let guids = (0..entries).map(|_| Some((reader.u8()?, Guid(reader.u64()?))));
        let guids = guids.collect::<Option<_>>()?;
        ports.push(PortAliases { port, guids });
    }
    Some(ports)
}

fn put_groups(out: &mut Vec<u8>, groups: &[MulticastGroup]) {
    out.extend(length(groups.len()));
    for group in groups {
        out.extend(group.mlid.0.to_le_bytes());
        // An MTU's code has three bits.
        out.push(group.mtu.code() | group.sl.get() << SL_SHIFT);
        out.extend(length(group.members.len()));
        for member in group.members.iter() {
            out.extend(member.guid.0.to_le_bytes());
            out.push(u8::from(member.receives));
        }
    }
}

fn take_groups(reader: &mut Reader<'_>) -> Option<Vec<MulticastGroup>> {
    let mut groups = Vec::new();
    for _ in 0..reader.u32()? {
        let (mlid, code) = (Lid(reader.u16()?), reader.u8()?);
        let (mtu, sl) = (Mtu::from_code(code & 0xF)?, Sl::new(code >> SL_SHIFT)?);
        let mut members = Vec::new();
        for _ in 0..reader.u32()? {
            let (guid, receives) = (Guid(reader.u64()?), reader.u8()? != 0);
            members.push(Member { guid, receives });
        }
        groups.push(MulticastGroup {
            mlid,
            mtu,
            sl,
            members: members.into(),
        });
    }
    Some(groups)
}

/// The reasons for which an entry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// The record ends inside the entry.
    Cut,
    /// The bytes are no entry, for this reason.
    Kind(String),
}

/// Reads an entry; `None` at the end.
pub(super) fn take_entry(reader: &mut Reader<'_>) -> Result<Option<Entry>, Bad> {
    let kind = |error: &dyn std::fmt::Display| Bad::Kind(error.to_string());
    let Some(tag) = reader.u8() else { return Ok(None) };
    let time = reader.u64();
    if time.is_none() {
        // The remaining bytes are a part of the time: only the kind of the entry can be checked.
        *reader = Reader::new(&[]);
    }
    let input = match tag {
        0 => Some(RecordedInput::Start),
        1 => reader.datagram().map(RecordedInput::Received),
        2 => reader.datagram().map(RecordedInput::Returned),
        3 => Some(RecordedInput::Wake),
        4 => reader.u64().map(|id| RecordedInput::Computed(JobId(id))),
        5 => reader.u64().map(RecordedInput::Persisted),
        24 => reader.u64().map(RecordedInput::NotPersisted),
        6 => Some(RecordedInput::Sweep),
        7 => match reader.text() {
            Some(text) => {
                let settings = settings_of(text, "a policy in it").map_err(|e| kind(&e))?;
                Some(RecordedInput::SetPolicy(Arc::new(settings.policy)))
            }
            None => None,
        },
        8 => Some(RecordedInput::Stop),
        26 => take_forget(reader),
        31 => take_list(reader)?,
        32 => job_partitions::take(reader).map(RecordedInput::JobPartitions),
        30 => reader.u64().map(|key| RecordedInput::SetSmKey(SecretKey::new(key))),
        22 => take_aliases(reader).map(RecordedInput::Aliases),
        20 => take_groups(reader).map(RecordedInput::Groups),
        9 | 10 => Some(RecordedInput::Rebalance(Asked { at_once: tag == 10 })),
        11 => Some(RecordedInput::Reregister),
        12 => Some(RecordedInput::Registered),
        21 => Some(RecordedInput::Unproven),
        13 => Some(RecordedInput::HoldBack),
        14 => Some(RecordedInput::Ready),
        25 => take_babbler(reader).map(|(lid, port)| RecordedInput::Babbles(lid, port)),
        15 => match reader.u16().zip(reader.text()) {
            Some((by, text)) => {
                let state = parse_plan_state(text.as_bytes()).map_err(|e| kind(&e))?;
                Some(RecordedInput::Told(ToldLevels {
                    by: Lid(by),
                    lanes: state.lane_count,
                    by_port: state.levels,
                }))
            }
            None => None,
        },
        18 => take_guids(reader).map(RecordedInput::ReregisterThese),
        23 => take_guids(reader).map(RecordedInput::Doubt),
        16 => reader.datagram().map(RecordedInput::Asked),
        17 => reader.datagram().map(RecordedInput::Said),
        other => return Err(Bad::Kind(format!("an input of kind {other} is unknown"))),
    };
    let (input, time) = input.zip(time).ok_or(Bad::Cut)?;
    // A process that was killed while it handled an input has written nothing behind it.
    let outputs = match reader.left() {
        0 => None,
        _ => Some(reader.u32().zip(reader.u64()).ok_or(Bad::Cut)?),
    };
    Ok(Some(Entry {
        time: Time(time),
        input,
        outputs,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_to_be_asked_come_back() {
        let check = |guids: &[u64]| {
            let ports: BTreeSet<Guid> = guids.iter().copied().map(Guid).collect();
            let mut bytes = Vec::new();
            for is_doubt in [false, true] {
                bytes.clear();
                let command = match is_doubt {
                    false => Command::ReregisterThese(ports.clone()),
                    true => Command::Doubt(ports.clone()),
                };
                put_input(&mut bytes, Time(7), &Input::Command(command));
                let entry = take_entry(&mut Reader::new(&bytes)).unwrap().unwrap();
                let read = match (entry.input, is_doubt) {
                    (RecordedInput::ReregisterThese(read), false) | (RecordedInput::Doubt(read), true) => read,
                    (other, _) => panic!("{other}"),
                };
                assert_eq!((entry.time, read), (Time(7), ports.clone()));
                if !guids.is_empty() {
                    assert!(take_entry(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
                }
            }
        };
        check(&[]);
        check(&[1]);
        check(&[u64::MAX, 3, 2]);
    }

    #[test]
    fn alias_guids_come_back() {
        let check = |ports: &[(u64, &[(u8, u64)])]| {
            let told = ports.iter().map(|&(port, guids)| PortAliases {
                port: Guid(port),
                guids: guids.iter().map(|&(entry, guid)| (entry, Guid(guid))).collect(),
            });
            let told: Vec<PortAliases> = told.collect();
            let mut bytes = Vec::new();
            put_input(&mut bytes, Time(7), &Input::Aliases(told.clone()));
            let entry = take_entry(&mut Reader::new(&bytes)).unwrap().unwrap();
            let RecordedInput::Aliases(read) = entry.input else {
                panic!("{}", entry.input);
            };
            assert_eq!((entry.time, read), (Time(7), told));
            assert!(take_entry(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
        };
        check(&[]);
        check(&[(1, &[])]);
        check(&[(1, &[(1, 0x11), (255, u64::MAX)]), (u64::MAX, &[(8, 0x18)])]);
    }
}
