//! The tables that OpenSM would write to a port.

use selvedge_fabric::{Node, Port};
use selvedge_plan::qos::{Settings, Target};
use selvedge_plan::{ArbBlock, has_sl_mapping};
use selvedge_types::{NodeKind, PortNum, Sl, Vl};

/// The tables of a kind of port, before they are fitted to one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Entries of the high-priority table. Weights in units of 64 bytes.
    pub high: Vec<(Vl, u8)>,
    /// Entries of the low-priority table. Weights in units of 64 bytes.
    pub low: Vec<(Vl, u8)>,
    /// PortInfo.VLHighLimit, in units of 4,096 bytes.
    pub high_limit: u8,
    /// The lane of each SL; lane 15 drops.
    pub row: [Vl; Sl::COUNT],
}

impl Template {
    /// Returns the tables of a target's ports.
    #[must_use]
    pub fn new(settings: &Settings, target: Target) -> Self {
        Self {
            high: settings.vlarb_high(target),
            low: settings.vlarb_low(target),
            high_limit: settings.high_limit(target),
            row: settings.sl2vl(target),
        }
    }
}

/// What a port's tables depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// PortInfo.VLCap, 1–5.
    pub vl_cap: u8,
    /// PortInfo.OperationalVLs, 1–5.
    pub oper_vls: u8,
    /// PortInfo.VLArbitrationHighCap, in entries.
    pub vl_arb_high: u8,
    /// PortInfo.VLArbitrationLowCap, in entries.
    pub vl_arb_low: u8,
    /// True if the port has SLtoVLMappingTables.
    pub has_sl_mapping: bool,
}

impl PortFacts {
    /// Returns the facts of a node's port.
    #[must_use]
    pub fn of(node: &Node, num: PortNum, port: &Port) -> Self {
        Self {
            vl_cap: port.capability.vls,
            oper_vls: port.settings.oper_vls,
            vl_arb_high: port.capability.vl_arb_high,
            vl_arb_low: port.capability.vl_arb_low,
            has_sl_mapping: has_sl_mapping(node, num),
        }
    }

    /// Returns the lane to which OpenSM changes a lane that the link does not have: the low bits of its number. Of five
    /// lanes 0–4, lanes 2 and 4 of a link with two lanes both become lane 0.
    fn masked(&self, vl: Vl) -> Vl {
        let bits = self.oper_vls.clamp(1, 5) - 1;
        Vl::new(vl.get() & ((1 << bits) - 1)).unwrap_or_default()
    }

    fn row(&self, lanes: &[Vl; Sl::COUNT]) -> [Vl; Sl::COUNT] {
        // Lane 15 is no lane of the link: it drops the packet.
        lanes.map(|vl| if vl == Vl::MANAGEMENT { vl } else { self.masked(vl) })
    }
}

/// The settings that a row of a node's SLtoVLMappingTable follows. On a switch these are the settings of external ports
/// for every pair of ports, except from port 0 to itself.
#[must_use]
pub fn row_target(kind: NodeKind, egress: PortNum, ingress: PortNum) -> Target {
    match kind {
        NodeKind::Ca => Target::Ca,
        NodeKind::Router => Target::Router,
        NodeKind::Switch if egress == PortNum::MANAGEMENT && ingress == PortNum::MANAGEMENT => Target::SwitchPort0,
        NodeKind::Switch => Target::SwitchExternal,
    }
}

/// The tables of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTables {
    /// The row of the SLtoVLMappingTable; `None`: the port has none.
    pub row: Option<[Vl; Sl::COUNT]>,
    /// Blocks 1–4 of the VLArbitrationTable (1 and 2: low priority); `None`: OpenSM writes nothing.
    pub blocks: [Option<ArbBlock>; 4],
    /// PortInfo.VLHighLimit.
    pub high_limit: u8,
    /// Entries with a weight that find no room in the port's tables.
    pub left_out: usize,
}

impl PortTables {
    /// Returns the tables of a port. A port with one data lane has no arbitration tables, and VLHighLimit 0.
    #[must_use]
    pub fn new(template: &Template, port: &PortFacts) -> Self {
        let row = port.has_sl_mapping.then(|| port.row(&template.row));
        if port.vl_cap == 1 {
            return Self {
                row,
                blocks: [None; 4],
                high_limit: 0,
                left_out: 0,
            };
        }
        let (low, low_left_out) = Self::pair(port, &template.low, port.vl_arb_low);
        let (high, high_left_out) = Self::pair(port, &template.high, port.vl_arb_high);
        Self {
            row,
            blocks: [low[0], low[1], high[0], high[1]],
            high_limit: template.high_limit,
            left_out: low_left_out + high_left_out,
        }
    }

    /// Returns the two blocks of a priority, and the number of entries with a weight without room in them. The second
    /// block of a table of 64 entries stays empty. Source: observed with OpenSM, which writes as many entries to the
    /// second block as the remainder of the table's length divided by 32.
    fn pair(port: &PortFacts, entries: &[(Vl, u8)], cap: u8) -> ([Option<ArbBlock>; 2], usize) {
        let cap = usize::from(cap);
        let room = [cap.min(ArbBlock::TURNS), cap % ArbBlock::TURNS];
        let is_there = [cap > 0, cap > ArbBlock::TURNS];
        let mut left_out = 0;
        let mut blocks = [None; 2];
        let mut chunks = entries.chunks(ArbBlock::TURNS);
        for at in 0..2 {
            let chunk = chunks.next().unwrap_or_default();
            let room = if is_there[at] { room[at] } else { 0 };
            left_out += chunk.iter().skip(room).filter(|(_, weight)| *weight > 0).count();
            if is_there[at] {
                let mut block = ArbBlock::default();
                for (turn, &(vl, weight)) in block.turns.iter_mut().zip(&chunk[..chunk.len().min(room)]) {
                    *turn = (port.masked(vl), weight);
                }
                blocks[at] = Some(block);
            }
        }
        (blocks, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::set;
    use super::*;

    const PORT: PortFacts = PortFacts {
        vl_cap: 5,
        oper_vls: 5,
        vl_arb_high: 64,
        vl_arb_low: 8,
        has_sl_mapping: true,
    };

    /// Returns the tables of channel adapters with these settings.
    fn template(lines: &[(&str, &str)]) -> Template {
        let mut settings = Settings::default();
        (lines.iter()).for_each(|(key, value)| set(&mut settings, key, value).unwrap());
        Template::new(&settings, Target::Ca)
    }

    fn row(tables: &PortTables) -> String {
        let lanes = tables.row.unwrap().map(|vl| vl.get().to_string());
        lanes.join(",")
    }

    fn turns(block: Option<ArbBlock>) -> String {
        let Some(block) = block else { return "-".to_owned() };
        let last = block.turns.iter().rposition(|turn| *turn != Default::default());
        let shown = &block.turns[..last.map_or(0, |last| last + 1)];
        let all = shown.iter().map(|(vl, weight)| format!("{}:{weight}", vl.get()));
        all.collect::<Vec<_>>().join(",")
    }

    /// The lane is masked by the number of operational lanes, lane 15 is kept.
    #[test]
    fn lanes_are_masked_by_operational_lanes() {
        let template = template(&[("qos_sl2vl", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15")]);
        let check = |oper_vls, want: &str| {
            let port = PortFacts { oper_vls, ..PORT };
            assert_eq!(row(&PortTables::new(&template, &port)), want, "{oper_vls}");
        };
        check(1, "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,15");
        check(2, "0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,15");
        check(3, "0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15");
        check(4, "0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,15");
        check(5, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15");
    }

    #[test]
    fn blocks_have_the_ports_length() {
        let forty: Vec<String> = (0..40).map(|at| format!("{}:{}", at % 3, at + 1)).collect();
        let template = template(&[
            ("qos_vlarb_low", &forty.join(",")),
            ("qos_vlarb_high", &forty.join(",")),
        ]);
        let blocks = |low, high| {
            let port = PortFacts {
                vl_arb_low: low,
                vl_arb_high: high,
                oper_vls: 2,
                ..PORT
            };
            let tables = PortTables::new(&template, &port);
            (tables.blocks.map(turns), tables.left_out)
        };
        let ([low1, low2, high1, high2], left_out) = blocks(4, 36);
        assert_eq!(low1, "0:1,1:2,0:3,0:4");
        assert_eq!(low2, "-");
        assert!(high1.starts_with("0:1,1:2") && high1.ends_with("1:32"), "{high1}");
        assert_eq!(high2, "0:33,0:34,1:35,0:36");
        assert_eq!(left_out, 36 + 4);
        // A table of 64 entries: the second block is written, but empty.
        let ([low1, low2, high1, high2], left_out) = blocks(0, 64);
        assert_eq!((low1.as_str(), low2.as_str(), high2.as_str()), ("-", "-", ""));
        assert!(high1.ends_with("1:32"), "{high1}");
        assert_eq!(left_out, 40 + 8);
    }

    /// A port with one data lane needs no arbitration, but has a row.
    #[test]
    fn a_port_with_one_lane_has_no_arbitration() {
        let template = template(&[("qos_high_limit", "9"), ("qos_ca_vlarb_low", "0:7")]);
        let one = PortFacts {
            vl_cap: 1,
            oper_vls: 1,
            ..PORT
        };
        let tables = PortTables::new(&template, &one);
        assert_eq!(tables.blocks, [None; 4]);
        assert_eq!((tables.high_limit, tables.left_out), (0, 0));
        assert_eq!(row(&tables), "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0");
        let two = PortFacts { vl_cap: 2, ..one };
        let tables = PortTables::new(&template, &two);
        assert_eq!((turns(tables.blocks[0]).as_str(), tables.high_limit), ("0:7", 9));
        let without = PortFacts {
            has_sl_mapping: false,
            ..two
        };
        assert_eq!(PortTables::new(&template, &without).row, None);
    }

    #[test]
    fn rows_of_a_switch_follow_its_external_ports() {
        let port = |num| PortNum::new(num).unwrap();
        let check = |kind, egress, ingress, want| assert_eq!(row_target(kind, port(egress), port(ingress)), want);
        check(NodeKind::Switch, 3, 0, Target::SwitchExternal);
        check(NodeKind::Switch, 0, 3, Target::SwitchExternal);
        check(NodeKind::Switch, 0, 0, Target::SwitchPort0);
        check(NodeKind::Ca, 1, 0, Target::Ca);
        check(NodeKind::Router, 1, 0, Target::Router);
    }
}
