//! All configuration keys, each with unit, legal values, default (from `Settings::default`) and consequence.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::RebalanceWhen;
use selvedge_plan::partition::Partitions;
use selvedge_types::{Mtu, SecretKey, Sl};

use crate::{
    Key, Settings, Value, alarm_keys, history_keys, parse_engines, qos_keys, routing_keys, telemetry_choices,
    telemetry_keys,
};

impl Key {
    /// All keys, in the order of the printed file.
    pub const ALL: &'static [Self] = &[
        Self {
            section: "routing",
            name: "engines",
            want: "a list of engine names, as [\"updn\"]",
            doc: "Routing engines in order of preference: the first one with a plan that the judge accepts is taken, \
                and each refusal is reported. auto inspects the fabric and takes fat-tree or weave.",
            set: |s, v| {
                let names = v.list().filter(|names| !names.is_empty())?;
                let list = parse_engines(&names.join(","))
                    .ok()
                    .filter(|list| list.fork.is_empty())?;
                s.policy.engines = match list.engines.is_empty() {
                    true => Settings::default().policy.engines,
                    false => list.engines,
                };
                Some(())
            },
            show: |s| Some(Value::List(s.policy.engines.iter().map(|e| e.0.clone()).collect())),
        },
        guids!(
            "roots",
            roots,
            "Roots for updn: GUIDs of switches, or of hosts at these switches. Empty: the engine finds them."
        ),
        guids!(
            "compute",
            compute,
            "GUIDs of compute nodes' ports. fat-tree, ftree, sssp and dfsssp balance these first, separately. \
                Empty: all hosts that are no I/O nodes."
        ),
        guids!(
            "io",
            io,
            "GUIDs of I/O nodes' ports. The same engines balance these after the compute nodes."
        ),
        guids!(
            "guid_order",
            guid_order,
            "GUIDs of ports that minhop, updn, dnup and fat-tree route first, in this order."
        ),
        Self {
            section: "routing",
            name: "count_switches",
            want: "true or false",
            doc: "Count routes to switches too when engines spread load. Switches receive next to no traffic.",
            set: |s, v| {
                s.policy.count_switches = v.bool()?;
                Some(())
            },
            show: |s| Some(Value::Bool(s.policy.count_switches)),
        },
        routing_keys::LMC,
        routing_keys::REASSIGN_LIDS,
        routing_keys::LID_LAYOUT,
        routing_keys::LANES,
        routing_keys::USED_LANES,
        routing_keys::ASSUME_SL_AWARE,
        routing_keys::MULTICAST_LANE,
        small!(
            "routing",
            "flap_downs",
            policy.flap_downs,
            0..=100,
            "0 to 100 times (0: never)",
            "A link between switches that goes down this many times within flap_window_s is left out of routing, \
                even if it is up, until flap_hold_s after it last went down. 'selvedge sweep' includes it at once."
        ),
        count!(
            "routing",
            "flap_window_s",
            policy.flap_window_s,
            1..=86_400,
            "1 to 86400 seconds",
            "See flap_downs."
        ),
        count!(
            "routing",
            "flap_hold_s",
            policy.flap_hold_s,
            1..=86_400,
            "1 to 86400 seconds",
            "See flap_downs."
        ),
        Self {
            section: "routing",
            name: "rebalance",
            want: "\"never\", \"later\" or \"at-once\"",
            doc: "When load is rebalanced after links were lost or came back. never: entries move only if a fault \
                forces them to; later: after rebalance_quiet_s without an event, in steps of rebalance_blocks that \
                neither wait nor drop a packet; at-once: immediately, in one change, with all the waits that it needs.",
            set: |s, v| {
                let name = v.text()?;
                let all = [RebalanceWhen::Never, RebalanceWhen::Later, RebalanceWhen::AtOnce];
                s.policy.rebalance = all.into_iter().find(|when| when.name() == name)?;
                Some(())
            },
            show: |s| Some(Value::Text(s.policy.rebalance.name().to_owned())),
        },
        Self {
            section: "routing",
            name: "rebalance_blocks",
            want: "0 to 1000000 LFT blocks (0: a hundredth of all, at least 64)",
            doc: "LFT blocks (one SMP each) that a step of rebalancing may write.",
            set: |s, v| {
                s.policy.rebalance_blocks = v.int_up_to(1_000_000)?.try_into().ok()?;
                Some(())
            },
            show: |s| Some(Value::Int(u64::from(s.policy.rebalance_blocks))),
        },
        count!(
            "routing",
            "rebalance_quiet_s",
            policy.rebalance_quiet_s,
            1..=604_800,
            "1 to 604800 seconds",
            "Time without an event in the fabric before rebalancing begins, or continues after an event."
        ),
        count!(
            "routing",
            "rebalance_pause_s",
            policy.rebalance_pause_s,
            1..=86_400,
            "1 to 86400 seconds",
            "Pause between two steps of rebalancing."
        ),
        qos_keys::CLASSES,
        Self {
            section: "fabric",
            name: "mtu_max_bytes",
            want: "256, 512, 1024, 2048 or 4096 bytes",
            doc: "Largest MTU to plan. Each link gets the smallest of this and the MTUs that its two ports support.",
            set: |s, v| {
                let bytes = u16::try_from(v.int_up_to(4096)?).ok()?;
                s.policy.mtu_max = Mtu::try_from(bytes).ok()?;
                Some(())
            },
            show: |s| Some(Value::Int(u64::from(s.policy.mtu_max.bytes()))),
        },
        small!(
            "fabric",
            "packet_life",
            policy.packet_life,
            0..=31,
            "0 to 31 (4.096 us x 2^value; 20 and more: for ever)",
            "How long a packet may stay in a switch before it is dropped (SwitchInfo.LifeTimeValue). A longer time \
                hides congestion; with 'for ever', a deadlock never ends."
        ),
        small!(
            "fabric",
            "hoq_life",
            policy.hoq_life,
            0..=31,
            "0 to 31 (4.096 us x 2^value; 20 and more: for ever)",
            "How long a packet may wait at the head of a lane between switches (PortInfo.HOQLife)."
        ),
        small!(
            "fabric",
            "leaf_hoq_life",
            policy.leaf_hoq_life,
            0..=31,
            "0 to 31 (4.096 us x 2^value; 20 and more: for ever)",
            "How long a packet may wait at the head of a lane towards a host (PortInfo.HOQLife). By default shorter \
                than hoq_life, so that a slow host does not delay packets to others."
        ),
        small!(
            "fabric",
            "vl_stall_count",
            policy.vl_stall_count,
            0..=7,
            "0 to 7 packets",
            "Number of packets dropped in a row at the head of a lane after which the lane is stalled (VLStallCount)."
        ),
        small!(
            "fabric",
            "subnet_timeout",
            policy.subnet_timeout,
            0..=31,
            "0 to 31 (4.096 us x 2^value)",
            "Longest time that a packet may need through the subnet (PortInfo.SubnetTimeOut); agents repeat traps at \
                this pace."
        ),
        small!(
            "fabric",
            "local_phy_errors",
            policy.local_phy_errors,
            0..=15,
            "0 to 15 errors",
            "Physical errors after which a port reports trap 129."
        ),
        small!(
            "fabric",
            "overrun_errors",
            policy.overrun_errors,
            0..=15,
            "0 to 15 errors",
            "Buffer overruns after which a port reports trap 130."
        ),
        key64!(
            "fabric",
            "subnet_prefix",
            policy.subnet_prefix,
            "GID prefix of the subnet. Change it only to distinguish subnets that routers join: every GID changes."
        ),
        Self {
            section: "fabric",
            name: "sm_sl",
            want: "0 to 15",
            doc: "Service level of packets from hosts to the manager (MasterSMSL).",
            set: |s, v| {
                s.policy.sm_sl = Sl::new(v.u8_up_to(15)?)?;
                Some(())
            },
            show: |s| Some(Value::Int(u64::from(s.policy.sm_sl.get()))),
        },
        Self {
            section: "fabric",
            name: "partitions",
            want: "a list of lines as in OpenSM's partitions.conf, as [\"Default=0x7fff,ipoib: ALL=full;\"]",
            doc: "Partitions and their IPoIB groups, as lines of OpenSM's partitions.conf. Empty: every port is a full \
                member of the default partition. If there is any rule, a port without one is only a limited member of \
                the default partition. Keys without a rule are removed from ports' tables.",
            set: |s, v| {
                let lines = v.list()?;
                let read = || crate::parse_partitions(&lines.join("\n"), Path::new("fabric.partitions")).ok();
                s.policy.partitions = Arc::new(if lines.is_empty() {
                    Partitions::default()
                } else {
                    read()?
                });
                Some(())
            },
            show: |s| Some(Value::List(s.policy.partitions.statements.clone())),
        },
        Self {
            section: "fabric",
            name: "part_enforce",
            want: "\"off\", \"in\", \"out\" or \"both\"",
            doc: "Whether the switch port in front of a host drops packets with keys that the host does not hold: \
                packets from the host (in), packets to it (out), or both. off: only the host's own port checks keys. \
                The P_Key table of each such switch port is read once a sweep.",
            set: |s, v| {
                s.policy.part_enforce = v.text()?.parse().ok()?;
                Some(())
            },
            show: |s| Some(Value::Text(s.policy.part_enforce.name().to_owned())),
        },
        Self {
            section: "fabric",
            name: "expected",
            want: "a path; relative ones start at the configuration file's folder",
            doc: "Topology file that each sweep is compared with, as with --expected: 'selvedge topology approve' \
                writes one. It is read again before each comparison. Default: no comparison.",
            set: |s, v| {
                s.daemon.expected = Some(PathBuf::from(v.text().filter(|path| !path.is_empty())?));
                Some(())
            },
            show: |s| Some(Value::Text(s.daemon.expected.as_ref()?.display().to_string())),
        },
        secret64!(
            "keys",
            "m_key",
            |s| SecretKey::new(s.policy.m_key),
            |s, key| s.policy.m_key = key.expose(),
            "M_Key set at every port; 0: unprotected. DANGER: a manager without this key can no longer change anything."
        ),
        Self {
            section: "keys",
            name: "m_key_lease_s",
            want: "0 to 65535 seconds (0: for ever)",
            doc: "Time without a request of its manager after which a port accepts Sets without the key again.",
            set: |s, v| {
                s.policy.m_key_lease_s = u16::try_from(v.int_up_to(65_535)?).ok()?;
                Some(())
            },
            show: |s| Some(Value::Int(u64::from(s.policy.m_key_lease_s))),
        },
        small!(
            "keys",
            "m_key_protect",
            policy.m_key_protect,
            0..=3,
            "0 to 3",
            "What a reader without the key gets. 0: everything, also the key; 1: all except the key; 2 and 3: nothing."
        ),
        secret64!(
            "keys",
            "sm_key",
            |s| s.manager.sm_key,
            |s, key| s.manager.sm_key = key,
            "SM_Key shown to other subnet managers. Managers with different keys ignore each other."
        ),
        secret64!(
            "keys",
            "sa_key",
            |s| s.administrator.sa_key,
            |s, key| s.administrator.sa_key = key,
            "SM_Key with which a request to the subnet administrator is trusted: it may see P_Keys and members, and \
                register for other ports. A request with another key is DENIED; one without a key gets what untrusted \
                requesters may see. The default, 1 as in OpenSM, protects against mistakes, not against attacks."
        ),
        small!(
            "manager",
            "priority",
            manager.priority,
            0..=15,
            "0 to 15",
            "SM priority: the highest becomes master; among equals the lowest port GUID."
        ),
        count!(
            "manager",
            "window",
            manager.window,
            1..=1024,
            "1 to 1024 SMPs",
            "SMPs in flight in all. SMPs have no flow control: more of them overrun agents and sockets, fewer make \
                sweeps slow."
        ),
        count!(
            "manager",
            "agent_window",
            manager.agent_window,
            1..=64,
            "1 to 64 SMPs",
            "SMPs in flight to one agent; twice as many during a repair. An agent is one processor with a short queue."
        ),
        millis!("timeout_ms", timeout, "Time after which a request is repeated."),
        small!(
            "manager",
            "retries",
            manager.retries,
            0..=15,
            "0 to 15 repeats",
            "Repeats before a request has failed."
        ),
        Self {
            section: "manager",
            name: "sweep_interval_s",
            want: "0 to 86400 seconds (0: no sweeps by time)",
            doc: "Time between light sweeps. They find changes of which the trap was lost; without light sweeps such a \
                change stays unnoticed.",
            set: |s, v| {
                let seconds = v.int_up_to(86_400)?;
                s.manager.sweep_interval = (seconds > 0).then(|| Duration::from_secs(seconds));
                Some(())
            },
            show: |s| Some(Value::Int(s.manager.sweep_interval.map_or(0, |d| d.as_secs()))),
        },
        Self {
            section: "manager",
            name: "read_back_sweeps",
            want: "0 to 1000000 light sweeps (0: only what was just written)",
            doc: "Number of light sweeps in which every forwarding table block is read back once, in equal shares. \
                Blocks written since the previous light sweep are read back in addition. A smaller number finds a \
                switch that has lost an entry earlier, and costs more SMPs.",
            set: |s, v| {
                s.manager.read_back_sweeps = v.int_up_to(1_000_000)?.try_into().ok()?;
                Some(())
            },
            show: |s| Some(Value::Int(s.manager.read_back_sweeps.into())),
        },
        Self {
            section: "manager",
            name: "backups_after_s",
            want: "0 to 86400 seconds (0: never)",
            doc: "Time without an event before the repair of each link is planned and judged in advance; if the \
                link is lost, this repair is sent at once. It takes idle time of a processor (half a minute with 5832 \
                hosts), and up to 256 MiB. Not in fabrics with more than 8000000 table entries, or 200000 with weave.",
            set: |s, v| {
                let seconds = v.int_up_to(86_400)?;
                s.manager.backups_after = (seconds > 0).then(|| Duration::from_secs(seconds));
                Some(())
            },
            show: |s| Some(Value::Int(s.manager.backups_after.map_or(0, |d| d.as_secs()))),
        },
        millis!(
            "poll_interval_ms",
            poll_interval,
            "Time between a standby's polls of the master. A poll that takes longer counts as missed."
        ),
        count!(
            "manager",
            "poll_misses",
            manager.poll_misses,
            1..=100,
            "1 to 100 polls",
            "Polls missed in a row after which a standby takes over."
        ),
        Self {
            section: "manager",
            name: "disable_babbling_ports",
            want: "true or false",
            doc: "Set the link of a host that babbles (SLV-SM-0091) to Disabled, at the end nearer to the manager. \
                Default: the host is only reported, and limited.",
            set: |s, v| {
                s.manager.disable_babbling_ports = v.bool()?;
                Some(())
            },
            show: |s| Some(Value::Bool(s.manager.disable_babbling_ports)),
        },
        count!(
            "sa",
            "rate_per_s",
            administrator.rate_per_s,
            1..=1_000_000,
            "1 to 1000000 requests a second",
            "Requests to the subnet administrator that one LID may send per second in the long run; sixteen examined \
                rows count as one request. Further requests get BUSY. At 2 us each the default takes 4 % of a core."
        ),
        count!(
            "sa",
            "burst",
            administrator.burst,
            1..=1_000_000_000,
            "1 to 1000000000 requests",
            "Requests that one LID may send at once: when a large job starts on a host, it requests many paths."
        ),
        count!(
            "sa",
            "transfers_per_client",
            administrator.transfers_per_client,
            1..=1024,
            "1 to 1024 answers",
            "Answers of several datagrams in progress to one LID; further requests get BUSY. Each takes at most 13 KB."
        ),
        count!(
            "sa",
            "services_per_client",
            administrator.services_per_client,
            1..=16384,
            "1 to 16384 services",
            "Services that one port may offer; more are refused with NO_RESOURCES. All ports may offer 16384."
        ),
        count!(
            "sa",
            "subscriptions_per_client",
            administrator.subscriptions_per_client,
            1..=65536,
            "1 to 65536 subscriptions",
            "Subscriptions that one port may have; more are refused. All ports may have 65536."
        ),
        count!(
            "sa",
            "groups",
            administrator.groups,
            1..=16383,
            "1 to 16383 multicast groups",
            "Multicast groups in all, each with its own LID; more are refused. Switches may have room for fewer."
        ),
        count!(
            "sa",
            "groups_per_client",
            administrator.groups_per_client,
            1..=16383,
            "1 to 16383 multicast groups",
            "Multicast groups that one port may have joined; more are refused."
        ),
        telemetry_keys::ENABLED,
        telemetry_keys::INTERVAL,
        telemetry_keys::ERRORS_INTERVAL,
        telemetry_keys::DETAIL_INTERVAL,
        telemetry_keys::CABLE_INTERVAL,
        telemetry_keys::ENDS,
        telemetry_keys::WINDOW,
        telemetry_keys::NODE_WINDOW,
        telemetry_keys::TIMEOUT,
        telemetry_keys::RETRIES,
        telemetry_keys::METRICS_LISTEN,
        telemetry_keys::GUILBAULTS,
        telemetry_keys::REMOTE_WRITE,
        history_keys::HISTORY,
        history_keys::FOLDER,
        history_keys::INTERVAL,
        history_keys::DAYS,
        history_keys::LIMIT,
        history_keys::WINDOW,
        history_keys::FABRIC,
        telemetry_choices::DETAIL,
        telemetry_choices::METRICS,
        telemetry_choices::EXPECTED_TYPES,
        telemetry_choices::HOST_COUNTERS,
        telemetry_choices::ISOLATE_PER_DAY,
        telemetry_choices::INCLUDE,
        telemetry_choices::EXCLUDE,
        alarm_keys::WINDOW,
        alarm_keys::TTL,
        alarm_keys::SYMBOL_ERRORS,
        alarm_keys::COUNTERS[0],
        alarm_keys::COUNTERS[1],
        alarm_keys::COUNTERS[2],
        alarm_keys::COUNTERS[3],
        alarm_keys::COUNTERS[4],
        alarm_keys::COUNTERS[5],
        alarm_keys::COUNTERS[6],
        alarm_keys::COUNTERS[7],
        alarm_keys::COUNTERS[8],
        alarm_keys::COUNTERS[9],
        alarm_keys::COUNTERS[10],
        alarm_keys::COUNTERS[11],
        alarm_keys::FLAPS,
        alarm_keys::FLAP_WINDOW,
        alarm_keys::BIT_ERRORS,
        alarm_keys::BIT_ERRORS_CRITICAL,
        alarm_keys::CONGESTED,
        path!(
            "socket",
            socket,
            "Unix socket of the HTTP API. Default: /run/selvedge, or the user's run-time folder."
        ),
        path!(
            "state_dir",
            state_dir,
            "Folder for state between runs (guid2lid). Default: nothing is stored; ports keep the LIDs that they hold."
        ),
        path!(
            "log_file",
            log_file,
            "Log file, opened again on SIGUSR1. Default: standard error."
        ),
        path!(
            "node_name_map",
            node_name_map,
            "Names by GUID, in the format of infiniband-diags. Default: NodeDescriptions."
        ),
        path!(
            "dump_dir",
            dump_dir,
            "Folder for OpenSM's dump files, written after each SUBNET UP: opensm-subnet.lst, a line per port that has \
                a peer. Default: none is written."
        ),
        Self {
            section: "daemon",
            name: "dump_routes",
            want: "true or false",
            doc: "Write opensm-lfts.dump, opensm-lid-matrix.dump, opensm.fdbs, opensm.mcfdbs and opensm-sl2vl.dump \
                there, too. opensm-lid-matrix.dump takes 100 MB with 1,000 switches.",
            set: |s, v| {
                s.daemon.dump_routes = v.bool()?;
                Some(())
            },
            show: |s| Some(Value::Bool(s.daemon.dump_routes)),
        },
        count!(
            "daemon",
            "event_ring",
            daemon.event_ring,
            1..=1000000,
            "1 to 1000000 events",
            "Events kept for the API; older ones are dropped. One needs about 200 bytes."
        ),
    ];

    /// Returns the tables of the file, in order.
    #[must_use]
    pub fn sections() -> Vec<&'static str> {
        let mut sections: Vec<_> = Self::ALL.iter().map(|key| key.section).collect();
        sections.dedup();
        sections
    }
}

pub(crate) fn millis(duration: Duration) -> Value {
    Value::Int(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Sets a key for the reader. False if the value is illegal.
pub(crate) fn set(key: &Key, settings: &mut Settings, value: &Value) -> bool {
    (key.set)(settings, value).is_some()
}

/// Returns what is wrong with the engines in a value of `routing.engines`; `None` for other keys and other mistakes.
pub(crate) fn engine_mistake(key: &Key, value: &Value) -> Option<String> {
    if (key.section, key.name) != ("routing", "engines") {
        return None;
    }
    match parse_engines(&value.list()?.join(",")) {
        Ok(list) => (!list.fork.is_empty()).then(|| list.fork.join("; ")),
        Err(what) => Some(what),
    }
}
