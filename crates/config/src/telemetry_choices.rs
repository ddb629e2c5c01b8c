//! What telemetry reads beside the usual counters, what is checked, and what an alarm may do: choices with their keys.

use std::path::PathBuf;

use crate::{Key, Value};

/// Attributes of performance management that the class `detail` may read. Source: IBA vol 1 §16.1.4.
pub const DETAIL_ATTRIBUTES: [&str; 16] = [
    "PortRcvErrorDetails",
    "PortXmitDiscardDetails",
    "PortVLOpPackets",
    "PortVLOpData",
    "PortVLXmitWaitCounters",
    "SwPortVLCongestion",
    "PortRcvConCtrl",
    "PortSLRcvFECN",
    "PortSLRcvBECN",
    "PortXmitConCtrl",
    "PortVLXmitTimeCong",
    "PortXmitDataSL",
    "PortRcvDataSL",
    "PortOpRcvCounters",
    "PortFlowCtlCounters",
    "PortExtendedSpeedsCounters",
];

/// Links that may be isolated within a day at most: an operator sees to more than that.
const ISOLATED_MAX: u64 = 100;

/// Choices about telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryChoices {
    /// Attributes of the class `detail`, by their names in the standard.
    pub detail: Vec<String>,
    /// File with the metrics of metric sets; `None`: all metrics.
    pub metrics: Option<PathBuf>,
    /// File with the expected types of nodes and ports; `None`: nothing is expected.
    pub expected_types: Option<PathBuf>,
    /// Folder in which the system shows its InfiniBand devices; `None`: their counters are not read.
    pub host_counters: Option<PathBuf>,
    /// Links that alarms may isolate within 24 hours; 0: none.
    pub isolate_per_day: u32,
    /// Names or GUIDs of the nodes that are read, with `*` for any text; empty: all.
    pub include: Vec<String>,
    /// Names or GUIDs of nodes that are not read.
    pub exclude: Vec<String>,
}

impl Default for TelemetryChoices {
    fn default() -> Self {
        let detail = [
            "PortRcvErrorDetails",
            "PortXmitDiscardDetails",
            "PortVLXmitWaitCounters",
            "SwPortVLCongestion",
        ];
        Self {
            detail: detail.map(str::to_owned).into(),
            metrics: None,
            expected_types: None,
            host_counters: Some(PathBuf::from("/sys/class/infiniband")),
            isolate_per_day: 0,
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

/// Attributes of the class `detail`.
pub const DETAIL: Key = Key {
    section: "telemetry",
    name: "detail",
    want: "a list of attribute names, as [\"PortRcvErrorDetails\"] (docs/telemetry.md lists them)",
    doc: "Attributes that are read every detail_interval_ms, from agents that have them: one request a port and \
        attribute.",
    set: |s, v| {
        let mut names = Vec::new();
        for name in v.list().filter(|names| !names.is_empty())? {
            let known = DETAIL_ATTRIBUTES
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(&name))?;
            if !names.iter().any(|listed| listed == known) {
                names.push(known.to_owned());
            }
        }
        s.telemetry_choices.detail = names;
        Some(())
    },
    show: |s| Some(Value::List(s.telemetry_choices.detail.clone())),
};

/// The metric selection file.
pub const METRICS: Key = file_key!(
    "metrics",
    metrics,
    "Metric selection file of metric sets: a name per line, # disables a line. Default: all metrics."
);

/// The file of expected types.
pub const EXPECTED_TYPES: Key = file_key!(
    "expected_types",
    expected_types,
    "File with the expected types of nodes and ports (docs/telemetry.md); others are reported. Default: nothing is \
        expected."
);

/// Where counters of the local host's devices are.
pub const HOST_COUNTERS: Key = Key {
    section: "telemetry",
    name: "host_counters",
    want: "a folder, or \"\" for none",
    doc: "Folder with the InfiniBand devices of this host. The hw_counters of their ports are shown in /metrics and \
        'selvedge telemetry port'. Default: /sys/class/infiniband.",
    set: |s, v| {
        let path = v.text()?;
        s.telemetry_choices.host_counters = (!path.is_empty()).then(|| PathBuf::from(path));
        Some(())
    },
    show: |s| {
        let path = s.telemetry_choices.host_counters.as_ref();
        Some(Value::Text(
            path.map_or_else(String::new, |path| path.display().to_string()),
        ))
    },
};

/// How many links alarms may isolate.
pub const ISOLATE_PER_DAY: Key = Key {
    section: "telemetry",
    name: "isolate_per_day",
    want: "0 to 100 links",
    doc: "Links between switches that critical alarms about errors may isolate within 24 hours, each as 'selvedge \
        isolate' does, judged first. 0: alarms are only reported.",
    set: |s, v| {
        s.telemetry_choices.isolate_per_day = u32::try_from(v.int_up_to(ISOLATED_MAX)?).ok()?;
        Some(())
    },
    show: |s| Some(Value::Int(s.telemetry_choices.isolate_per_day.into())),
};

/// Nodes that are read.
pub const INCLUDE: Key = Key {
    section: "telemetry",
    name: "include",
    want: "a list of names or GUIDs of nodes, * for any text, as [\"leaf*\"]",
    doc: "Only these nodes are read and shown by telemetry. Empty: all.",
    set: |s, v| {
        s.telemetry_choices.include = patterns(v)?;
        Some(())
    },
    show: |s| Some(Value::List(s.telemetry_choices.include.clone())),
};

/// Nodes that are not read.
pub const EXCLUDE: Key = Key {
    section: "telemetry",
    name: "exclude",
    want: "a list of names or GUIDs of nodes, * for any text, as [\"test-*\", \"0x0002c90300001234\"]",
    doc: "These nodes are neither read nor shown by telemetry, even if include names them.",
    set: |s, v| {
        s.telemetry_choices.exclude = patterns(v)?;
        Some(())
    },
    show: |s| Some(Value::List(s.telemetry_choices.exclude.clone())),
};

fn patterns(value: &Value) -> Option<Vec<String>> {
    value.list().filter(|names| names.iter().all(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    #[test]
    fn choices_are_read_or_refused() {
        let check = |line: &str, want: fn(&TelemetryChoices) -> bool| {
            let settings = parse(&format!("[telemetry]\n{line}\n"), Path::new("x"));
            let settings = settings.unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(want(&settings.telemetry_choices), "{line}");
        };
        check("detail = \"portflowctlcounters\"", |of| {
            of.detail == ["PortFlowCtlCounters"]
        });
        check("detail = [\"PortSLRcvFECN\", \"PortSLRcvFECN\"]", |of| {
            of.detail.len() == 1
        });
        check("host_counters = \"\"", |of| of.host_counters.is_none());
        check("exclude = \"leaf*\"", |of| {
            of.exclude == ["leaf*"] && of.include.is_empty()
        });
        check("metrics = \"m\"", |of| of.metrics.as_deref() == Some(Path::new("m")));
        check("", |of| *of == TelemetryChoices::default() && of.isolate_per_day == 0);
        let refused = |line: &str| {
            let error = parse(&format!("[telemetry]\n{line}\n"), Path::new("x")).unwrap_err();
            assert!(error.to_string().contains("SLV-CONFIG-"), "{error}");
        };
        refused("detail = [\"PortCounters\"]");
        refused("detail = []");
        refused("isolate_per_day = 101");
        refused("metrics = 5");
        refused("include = [\"\"]");
    }
}
