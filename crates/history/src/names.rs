//! Names of files in a history folder, and of the columns in them.

use core::fmt;

use selvedge_telemetry::Group;

use crate::calendar::Hour;

/// The file that names the fabric of the folder.
pub(crate) const FABRIC: &str = "fabric";
/// Suffix of a file that is being written.
pub(crate) const NEW: &str = ".new";
/// Suffix of a file that cannot be read and is kept for people.
pub(crate) const DAMAGED: &str = ".damaged";
const PARQUET: &str = ".parquet";
const JOURNAL: &str = ".journal";

/// An hour of a counter group: what one file holds. Ordered by group, then time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HourId {
    pub group: Group,
    pub epoch: u32,
    pub hour: Hour,
}

/// What a file of the folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A complete hour.
    Parquet,
    /// An hour in progress.
    Journal,
}

impl HourId {
    /// Returns the name of its Parquet file.
    pub fn parquet(self) -> String {
        format!("{self}{PARQUET}")
    }

    /// Returns the name of its journal.
    pub fn journal(self) -> String {
        format!("{self}{JOURNAL}")
    }

    /// Reads a name of a file.
    pub fn parse(name: &str) -> Option<(Self, Kind)> {
        let (stem, kind) = match name.strip_suffix(PARQUET) {
            Some(stem) => (stem, Kind::Parquet),
            None => (name.strip_suffix(JOURNAL)?, Kind::Journal),
        };
        let (group, rest) = stem.split_once('-')?;
        let (hour, epoch) = match rest.split_once("-e") {
            Some((hour, epoch)) => (hour, epoch.parse().ok()?),
            None => (rest, 0),
        };
        let id = Self {
            group: group_of(group)?,
            epoch,
            hour: Hour::parse(hour)?,
        };
        // A name that is written otherwise is not ours.
        (id.to_string() == stem).then_some((id, kind))
    }
}

impl fmt::Display for HourId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.group.name(), self.hour)?;
        match self.epoch {
            0 => Ok(()),
            epoch => write!(f, "-e{epoch}"),
        }
    }
}

/// Returns the group of the attribute with this name.
pub(crate) fn group_of(name: &str) -> Option<Group> {
    Group::ALL.into_iter().find(|group| group.name() == name)
}

/// Returns the name of a counter, as the standard has it.
#[must_use]
pub fn counter_name(group: Group, counter: usize) -> String {
    match group {
        Group::Base | Group::Extended | Group::RcvErrors | Group::XmitDiscards | Group::BitErrors => {
            group.counter_name(counter)
        }
        _ => format!("{}{counter}", stem(group)),
    }
}

/// Returns the name of the counters of a group with one counter a VL or SL, without that number. Source: IBA vol 1
/// §16.1.4, §A10.5.
const fn stem(group: Group) -> &'static str {
    match group {
        Group::Base | Group::Extended | Group::RcvErrors | Group::XmitDiscards | Group::BitErrors => "Counter",
        Group::VlPackets => "PortVLOpPackets",
        Group::VlData => "PortVLOpData",
        Group::VlXmitWait => "PortVLXmitWait",
        Group::VlCongestion => "SWPortVLCongestion",
        Group::Marks => "PortPktRcvMark",
        Group::SlFecn => "PortSLRcvFECN",
        Group::SlBecn => "PortSLRcvBECN",
        Group::TimeCongested => "PortXmitTimeCong",
        Group::VlTimeCongested => "PortVLXmitTimeCong",
        Group::SlXmitData => "PortXmitDataSL",
        Group::SlRcvData => "PortRcvDataSL",
        Group::OpRcv => "PortOpRcv",
        Group::FlowControl => "PortFlowCtl",
        Group::ExtendedSpeeds => "PortExtendedSpeeds",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn file_names() {
        for group in Group::ALL {
            for epoch in [0, 7] {
                let id = HourId {
                    group,
                    epoch,
                    hour: Hour(498_000),
                };
                assert_eq!(HourId::parse(&id.parquet()), Some((id, Kind::Parquet)));
                assert_eq!(HourId::parse(&id.journal()), Some((id, Kind::Journal)));
            }
        }
        let id = HourId::parse("PortCounters-20261129T07-e2.parquet").unwrap().0;
        assert_eq!((id.epoch, id.to_string().as_str()), (2, "PortCounters-20261129T07-e2"));
        for name in [
            "",
            "fabric",
            "PortCounters-20261129T07",
            "PortCounters-20261129T07.parquet.new",
            "PortCounters-20261129T07-e0.parquet",
            "PortCounters-20261129T07-e+1.parquet",
            "PortCounters-20261129T7.parquet",
            "Port-20261129T07.parquet",
        ] {
            assert_eq!(HourId::parse(name), None, "{name}");
        }
    }

    #[test]
    fn columns_of_a_group_have_different_names() {
        for group in Group::ALL {
            let names: BTreeSet<_> = (0..group.counters()).map(|i| counter_name(group, i)).collect();
            assert_eq!(names.len(), group.counters(), "{}", group.name());
        }
        assert_eq!(counter_name(Group::Extended, 0), "PortXmitData");
        assert_eq!(counter_name(Group::VlXmitWait, 3), "PortVLXmitWait3");
    }
}
