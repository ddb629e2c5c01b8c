//! Texts of findings: one line each, with the names of nodes; witnesses hop by hop.

use std::fmt;

use crate::aliases::AliasFault;
use crate::finding::{
    Attribute, Cause, Fault, Finding, Hop, LaneFault, Place, Severity, Sources, Step, Traffic, Unlike, Witness,
};
use crate::multicast::Stray;
use crate::quality;

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} host ports and {} switches", self.hosts, self.switches)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEntry => "its table has no entry for the LID",
            Self::AboveTop => "the LID is above LinearFDBTop",
            Self::NoSuchPort => "it has no such port",
            Self::Uncabled => "no cable is there",
            Self::LinkDown => "the link is down",
        })
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hosts => "traffic sent by hosts",
            Self::Agents => "traffic of hosts and of switches towards hosts",
            Self::Switches => "traffic that includes switches talking to switches",
        })
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LftBlock(block) => write!(f, "LFT block {block}"),
            Self::PKeyTable => f.write_str("P_KeyTable"),
            Self::PortInfo => f.write_str("PortInfo"),
            Self::PortState => f.write_str("PortState"),
            Self::SwitchInfo => f.write_str("SwitchInfo"),
            Self::SlToVl(ingress) => write!(f, "SLtoVLMappingTable from port {ingress}"),
            Self::VlArbitration(block) => write!(f, "VLArbitrationTable block {block}"),
        }
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} out {}", self.switch, self.ingress, self.egress)?;
        match self.vl {
            Some(vl) => write!(f, " vl {}", vl.get()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (from vl {}, LID {} sent by {})",
            self.hop,
            self.from_vl.get(),
            self.lid,
            self.source
        )
    }
}

fn joined<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { " -> " })?;
    }
    Ok(())
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle(steps) => joined(f, steps),
            Self::Path { source, lid, hops } => {
                write!(f, "{source} to LID {lid}: ")?;
                joined(f, hops)
            }
            Self::Plain => Ok(()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted = if self.accepted { " (accepted)" } else { "" };
        write!(f, "{} {}{accepted}: {}", self.code, self.severity, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlackHole { .. }
            | Self::Loop { .. }
            | Self::WrongDelivery { .. }
            | Self::OwnLid { .. }
            | Self::LaneDrop { .. } => loss_text(self, f),
            Self::Cycle { .. }
            | Self::StrayEntries { .. }
            | Self::TableShape { .. }
            | Self::Separated { .. }
            | Self::HostAlone { .. }
            | Self::OutOfReach { .. } => fabric_text(self, f),
            Self::ChangeMissing { .. }
            | Self::ChangeBeyond { .. }
            | Self::EarlyActivation { .. }
            | Self::IllegalState { .. }
            | Self::Generation { .. }
            | Self::EarlyEnforcement { .. }
            | Self::Lane { .. }
            | Self::UnsafeWay { .. }
            | Self::Quality { .. }
            | Self::InheritedCycle { .. } => change_text(self, f),
            Self::MulticastMissed { .. }
            | Self::MulticastLoop { .. }
            | Self::MulticastStray { .. }
            | Self::MulticastUnreached { .. }
            | Self::MulticastWay { .. }
            | Self::MulticastChange { .. }
            | Self::MulticastCircle { .. }
            | Self::MulticastApart { .. } => multicast_text(self, f),
            Self::OutOfService { port, lids, first } => write!(
                f,
                "{port} is out of service, but packets to {lids} LIDs leave by it, the first is LID {first}"
            ),
            Self::AliasChange { port, block, why } => {
                write!(f, "GUIDInfo block {block} of {port}: {}", alias_text(*why))
            }
            Self::LinearTopLow { .. }
            | Self::LinearCap { .. }
            | Self::LidMissing { .. }
            | Self::LidOfNoPort { .. }
            | Self::LidDuplicate { .. }
            | Self::LidMismatch { .. }
            | Self::LidRange { .. } => lid_text(self, f),
            Self::MtuMismatch { .. }
            | Self::LanesMismatch { .. }
            | Self::SettingRange { .. }
            | Self::Enforcement { .. }
            | Self::Unplanned { .. }
            | Self::NoSuchPlace { .. } => setting_text(self, f),
        }
    }
}

fn loss_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::BlackHole {
            switch,
            egress,
            lid,
            owner,
            cause,
            lost,
        } => {
            write!(f, "{switch} drops LID {lid} of {owner}: ")?;
            match cause {
                // The entry 255 means that there is no entry.
                Cause::NoEntry => write!(f, "{cause}")?,
                _ => write!(f, "its entry is {egress} and {cause}")?,
            }
            write!(f, "; {lost} cannot reach it")
        }
        Fault::Loop {
            switch,
            length,
            lid,
            owner,
            lost,
        } => write!(
            f,
            "packets to LID {lid} of {owner} loop over {length} switches, one of them {switch}; {lost} cannot reach it"
        ),
        Fault::WrongDelivery {
            switch,
            egress,
            lid,
            owner,
            receiver,
            lost,
        } => write!(
            f,
            "{switch} sends packets to LID {lid} of {owner} by port {egress} to {receiver}, which does not own this \
             LID; {lost} cannot reach it"
        ),
        Fault::OwnLid { switch, lid, egress } => {
            write!(
                f,
                "{switch} sends its own LID {lid} to port {egress}; the entry must be 0"
            )
        }
        Fault::LaneDrop {
            switch,
            egress,
            lid,
            owner,
            sl,
            vl,
            lanes,
            lost,
        } => write!(
            f,
            "{switch} puts packets with SL {} to LID {lid} of {owner} on VL {} of port {egress}, which has the data \
             lanes {lanes}: they are dropped; {lost} cannot reach it",
            sl.get(),
            vl.get()
        ),
        _ => Ok(()),
    }
}

fn fabric_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::Cycle { traffic, length } => {
            write!(
                f,
                "{traffic} can deadlock: {length} channels wait for each other in a circle"
            )
        }
        Fault::StrayEntries {
            lids,
            entries,
            switch,
            lid,
        } => write!(
            f,
            "{entries} entries for {lids} LIDs that no port owns, the first is LID {lid} at {switch}; \
             clear them or read the LIDs again"
        ),
        Fault::TableShape { tables, fabric } => write!(
            f,
            "tables are for {tables} switches, the fabric has {fabric}; give tables that were made for this fabric"
        ),
        Fault::Separated {
            parts,
            hosts_of_largest,
            hosts,
            host_pairs_apart: 0,
        } => write!(
            f,
            "the fabric has {parts} parts without a link between them, as rails have; the largest has \
             {hosts_of_largest} of {hosts} host ports, no pair of hosts is apart"
        ),
        Fault::Separated {
            parts,
            hosts_of_largest,
            hosts,
            host_pairs_apart,
        } => write!(
            f,
            "the fabric falls into {parts} parts without a link between them; the largest has {hosts_of_largest} of \
             {hosts} host ports, {host_pairs_apart} pairs of host ports are apart"
        ),
        Fault::HostAlone { host, has_link: false } => write!(f, "{host} has no trained link; check its cables"),
        Fault::HostAlone { host, .. } => write!(f, "{host} reaches no other host port; check the cables of its switch"),
        Fault::OutOfReach {
            seat,
            switches,
            hosts,
            first,
        } => write!(
            f,
            "{switches} switches and {hosts} hosts are beyond the 63 hops of a directed route even for a manager at \
             {seat}, the first at {first}: no manager can set them up; add links that shorten the way"
        ),
        _ => Ok(()),
    }
}

fn lid_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::LinearTopLow { switch, top, need } => {
            write!(
                f,
                "{switch} is to have LinearFDBTop {top}, but LIDs up to {need} are in use"
            )
        }
        Fault::LinearCap { switch, cap, need } => {
            write!(
                f,
                "{switch} has {cap} forwarding entries, too few for LID {need}; use lower LIDs"
            )
        }
        Fault::LidMissing { port } => write!(f, "{port} has a trained link but no LID"),
        Fault::LidOfNoPort { port, lids } => write!(
            f,
            "LID {} is given to {port}, which is no end port of this fabric",
            lids.base
        ),
        Fault::LidDuplicate { lid, port, other } => write!(f, "LID {lid} is given to {port} and to {other}"),
        Fault::LidMismatch {
            port,
            planned,
            settings,
        } => write!(
            f,
            "{port} shall have LID {} LMC {}, but its settings have LID {} LMC {}",
            planned.base,
            planned.lmc.get(),
            settings.base,
            settings.lmc.get()
        ),
        Fault::LidRange { port, lids } => write!(
            f,
            "{port}: LID {} with LMC {} is no range of unicast LIDs (1-49151) aligned to 2^LMC",
            lids.base,
            lids.lmc.get()
        ),
        _ => Ok(()),
    }
}

fn setting_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::MtuMismatch {
            port,
            mtu,
            peer,
            peer_mtu,
        } => write!(
            f,
            "{port} is to send up to {} bytes, {peer} up to {}; both ends need one MTU",
            mtu.bytes(),
            peer_mtu.bytes()
        ),
        Fault::LanesMismatch {
            port,
            oper_vls,
            peer,
            peer_oper_vls,
        } => write!(
            f,
            "{port} is to run OperationalVLs {oper_vls}, {peer} {peer_oper_vls}; both ends need one value"
        ),
        Fault::SettingRange {
            place,
            field,
            value,
            limit,
        } => {
            write!(f, "{place}: {field} is {value}, allowed are values up to {limit}")
        }
        Fault::Enforcement { port, why } => match why {
            Unlike::Missing(key) => write!(
                f,
                "{port} would drop packets of P_Key {:#06x} of the host behind it",
                key.0
            ),
            Unlike::Beyond(key) => write!(
                f,
                "{port} would let P_Key {:#06x} pass, which the host does not hold",
                key.0
            ),
            Unlike::NoHost => write!(f, "{port} is to enforce partitions, and no host is behind it"),
        },
        Fault::Unplanned { place } => write!(f, "{place} is in use, but the plan has no settings for it"),
        Fault::NoSuchPlace { place } => write!(f, "the plan has settings for {place}, which does not exist"),
        _ => Ok(()),
    }
}

fn change_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::ChangeMissing { place, attribute } => {
            write!(
                f,
                "{attribute} of {place} would stay different from the plan, or is not known to be equal"
            )
        }
        Fault::ChangeBeyond { place, attribute } => {
            write!(
                f,
                "the change set writes {attribute} of {place} with a value that is not in the plan"
            )
        }
        Fault::EarlyActivation {
            port,
            phase,
            relies_on,
            attribute,
            written_in,
        } => write!(
            f,
            "{port} goes ACTIVE in phase {phase}, but {attribute} of {relies_on} is written in phase {written_in}"
        ),
        Fault::IllegalState { port, from, to } => write!(f, "{port} cannot go from {from} to {to}"),
        Fault::Generation { plan, changes } => {
            write!(
                f,
                "the change set leads to plan {changes}, this is plan {plan}; compute it again"
            )
        }
        Fault::EarlyEnforcement {
            port,
            phase,
            written_in,
        } => write!(
            f,
            "{port} is to enforce partitions in phase {phase} while packets pass, but its P_Keys are written in phase \
             {written_in}"
        ),
        Fault::Lane { port, sl, vl, why } => {
            let why = match why {
                LaneFault::NoSuchLane => "a lane that its link does not have",
                LaneFault::NeverServed => "a lane that its arbiter never serves",
                LaneFault::NotProved => "another lane than the one that was proved",
                LaneFault::Early => "a lane that its link or its arbiter gets only in a later step",
                LaneFault::Cut => "a lane that its arbiter stops to serve while packets may be on it",
            };
            write!(f, "{port}: SL {} is put on VL {}, {why}", sl.get(), vl.get())
        }
        Fault::Quality { port, why } => {
            write!(f, "{port}: ")?;
            quality::text(why, f)
        }
        Fault::UnsafeWay { first } => write!(f, "the transition to the plan is not safe: {first}"),
        Fault::InheritedCycle { first } => {
            write!(
                f,
                "the tables in force are not safe, and the change leads to safe ones: {first}"
            )
        }
        _ => Ok(()),
    }
}

fn multicast_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::MulticastMissed { mlid, member } => {
            write!(
                f,
                "group {:#06x}: {member} is a member, but its tree does not reach the other members",
                mlid.0
            )
        }
        Fault::MulticastLoop { mlid, port } => {
            write!(f, "group {:#06x}: the link of {port} closes a loop of copies", mlid.0)
        }
        Fault::MulticastStray { mlid, port, why } => {
            let why = match why {
                Stray::NoLink => "no ACTIVE link is there",
                Stray::NoMember => "the port behind it is no member that receives",
                Stray::NoGroup => "there is no such group",
                Stray::OneWay => "the switch behind it does not copy back",
                Stray::NoNeed => "this branch leads to no member that receives",
                Stray::Mtu => "the link's MTU is less than the group's",
            };
            write!(f, "group {:#06x}: packets would be copied to {port}, but {why}", mlid.0)
        }
        Fault::MulticastUnreached { mlid, member } => {
            write!(
                f,
                "group {:#06x}: {member} cannot be reached: its link is not ACTIVE, or its switch has no room",
                mlid.0
            )
        }
        Fault::MulticastWay { mlid, phase, port } => {
            write!(
                f,
                "group {:#06x}: in phase {phase} the link of {port} can close a loop of old and new copies",
                mlid.0
            )
        }
        Fault::MulticastChange {
            switch,
            block,
            position,
        } => write!(
            f,
            "multicast block {block} position {position} of {switch} would not become what is planned"
        ),
        _ => copies_text(fault, f),
    }
}

/// Returns the text of a faulty Set of GUIDInfo.
fn alias_text(why: AliasFault) -> String {
    match why {
        AliasFault::NoPort => "there is no such end port".to_owned(),
        AliasFault::OwnGuid => "its first entry would not be the port's own GUID".to_owned(),
        AliasFault::NoRoom => "the port has no room for an entry (GUIDCap)".to_owned(),
        AliasFault::NotAsWanted => "it would not become what is planned".to_owned(),
        AliasFault::Taken(guid) => format!("another port has {guid}"),
    }
}

/// Writes the text of a fault of multicast copies together with routes.
fn copies_text(fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::MulticastCircle {
            mlid,
            vl,
            phase,
            channels,
        } => {
            let when = match phase {
                0 => String::new(),
                phase => format!(" in phase {phase}"),
            };
            write!(
                f,
                "group {:#06x}: copies and packets of routes can deadlock on VL {vl}{when}: \
                 {} links wait for each other:",
                mlid.0,
                channels.len()
            )?;
            channels.iter().try_for_each(|port| write!(f, " {port}"))
        }
        Fault::MulticastApart { mlid, member } => write!(
            f,
            "group {:#06x}: {member} is left out of the tree of its group, because every tree that includes it could \
             deadlock with routes",
            mlid.0
        ),
        _ => Ok(()),
    }
}
