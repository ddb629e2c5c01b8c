//! Sections port-groups, qos-levels and qos-match-rules.

use selvedge_types::{Mtu, NodeKind, PortNum, Sl};

use super::link::{Unlinked, UnlinkedRule};
use super::{Kind, Named, Parser, PolicyError, Ranges, needed};
use crate::opensm::number::number;
use crate::opensm::policy::{Level, PortGroup, PortName};

const GROUPS: &[&str] = &["port-group", "end-port-groups"];
const GROUP: &[&str] = &[
    "name:",
    "use:",
    "port-guid:",
    "port-name:",
    "pkey:",
    "partition:",
    "node-type:",
    "end-port-group",
];
const NODE_TYPE: &[&str] = &["CA", "SWITCH", "ROUTER", "SELF", "ALL"];
const LEVELS: &[&str] = &["qos-level", "end-qos-levels"];
const LEVEL: &[&str] = &[
    "name:",
    "use:",
    "sl:",
    "mtu-limit:",
    "rate-limit:",
    "packet-life:",
    "path-bits:",
    "pkey:",
    "end-qos-level",
];
const RULES: &[&str] = &["qos-match-rule", "end-qos-match-rules"];
const RULE: &[&str] = &[
    "use:",
    "qos-class:",
    "qos-level-name:",
    "source:",
    "destination:",
    "service-id:",
    "pkey:",
    "end-qos-match-rule",
];

pub(super) const SL: &str = "an SL from 0 to 15";
const MTU: &str = "mtu-limit 1 to 5: 256, 512, 1024, 2048 or 4096 bytes";
const RATE: &str = "rate-limit 2 to 22, the code of a static rate: 3 for 10 Gbit/s";
const LIFE: &str = "packet-life 0 to 63 (4.096 us x 2^value)";
const PORT_NAME: &str = "a port as NODE_DESCRIPTION/P1, in quotes if the description has blanks";

impl Parser<'_> {
    /// Reads section port-groups, which OpenSM accepts with one group at least.
    pub(super) fn groups(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        if self.kind() == Kind::Section("end-port-groups") {
            return Err(self.unexpected(&GROUPS[..1]));
        }
        loop {
            match self.take() {
                Kind::Section("port-group") => {
                    let group = self.group()?;
                    found.add_group(group)?;
                }
                Kind::Section("end-port-groups") => return Ok(()),
                _ => return Err(self.wrong(GROUPS)),
            }
        }
    }

    fn group(&mut self) -> Result<PortGroup, PolicyError> {
        let mut group = PortGroup {
            line: self.line(),
            ..PortGroup::default()
        };
        let (mut name, mut description) = (None, None);
        loop {
            match self.take() {
                Kind::Key("name") => self.text_once(&mut name, "name")?,
                Kind::Key("use") => self.text_once(&mut description, "use")?,
                Kind::Key("port-guid") => self.ranges(&mut group.guids)?,
                Kind::Key("port-name") => {
                    for (line, text) in self.texts()? {
                        let port = port_name(line, &text);
                        let wrong = PolicyError::Value {
                            line,
                            found: format!("'{}'", selvedge_types::printable(&text)),
                            want: PORT_NAME,
                        };
                        group.ports.push(port.ok_or(wrong)?);
                    }
                }
                Kind::Key("pkey") => self.pkeys(&mut group.pkeys)?,
                Kind::Key("partition") => group.partitions.extend(self.texts()?),
                Kind::Key("node-type") => self.node_types(&mut group)?,
                Kind::Section("end-port-group") => break,
                _ => return Err(self.wrong(GROUP)),
            }
        }
        group.name = needed(name, group.line, "port-group", "name")?;
        group.description = description.unwrap_or_default();
        Ok(group)
    }

    fn node_types(&mut self, group: &mut PortGroup) -> Result<(), PolicyError> {
        loop {
            let kinds: &[NodeKind] = match self.take() {
                Kind::NodeType("CA") => &[NodeKind::Ca],
                Kind::NodeType("SWITCH") => &[NodeKind::Switch],
                Kind::NodeType("ROUTER") => &[NodeKind::Router],
                Kind::NodeType("ALL") => &[NodeKind::Ca, NodeKind::Switch, NodeKind::Router],
                Kind::NodeType("SELF") => {
                    group.manager = true;
                    &[]
                }
                _ => return Err(self.wrong(NODE_TYPE)),
            };
            group.kinds.extend(kinds);
            if !self.takes(Kind::Comma) {
                return Ok(());
            }
        }
    }

    pub(super) fn levels(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        loop {
            match self.take() {
                Kind::Section("qos-level") => {
                    let line = self.line();
                    let level = self.level(line)?;
                    found.add_level(line, level)?;
                }
                Kind::Section("end-qos-levels") => return Ok(()),
                _ => return Err(self.wrong(LEVELS)),
            }
        }
    }

    fn level(&mut self, line: usize) -> Result<Level, PolicyError> {
        let mut level = Level::default();
        let (mut name, mut description, mut sl) = (None, None, None);
        loop {
            match self.take() {
                Kind::Key("name") => self.text_once(&mut name, "name")?,
                Kind::Key("use") => self.text_once(&mut description, "use")?,
                Kind::Key("sl") => {
                    self.once(&sl, "sl")?;
                    sl = Some(self.sl()?);
                }
                Kind::Key("mtu-limit") => {
                    self.once(&level.mtu, "mtu-limit")?;
                    level.mtu = Mtu::from_code(self.byte((1, 5), MTU)?);
                }
                Kind::Key("rate-limit") => {
                    self.once(&level.rate, "rate-limit")?;
                    level.rate = Some(self.byte((2, 22), RATE)?);
                }
                Kind::Key("packet-life") => {
                    self.once(&level.packet_life, "packet-life")?;
                    level.packet_life = Some(self.byte((0, 63), LIFE)?);
                }
                Kind::Key("path-bits") => self.ranges(&mut level.path_bits)?,
                Kind::Key("pkey") => self.pkeys(&mut level.pkeys)?,
                Kind::Section("end-qos-level") => break,
                _ => return Err(self.wrong(LEVEL)),
            }
        }
        level.sl = needed(sl, line, "qos-level", "sl")?;
        level.name = needed(name, line, "qos-level", "name")?;
        level.description = description.unwrap_or_default();
        Ok(level)
    }

    pub(super) fn rules(&mut self, found: &mut Unlinked) -> Result<(), PolicyError> {
        loop {
            match self.take() {
                Kind::Section("qos-match-rule") => {
                    let rule = self.rule()?;
                    found.rules.push(rule);
                }
                Kind::Section("end-qos-match-rules") => return Ok(()),
                _ => return Err(self.wrong(RULES)),
            }
        }
    }

    fn rule(&mut self) -> Result<UnlinkedRule, PolicyError> {
        let mut found = UnlinkedRule::default();
        found.rule.line = self.line();
        let mut description = None;
        loop {
            match self.take() {
                Kind::Key("use") => self.text_once(&mut description, "use")?,
                Kind::Key("qos-level-name") => {
                    self.once(&found.level, "qos-level-name")?;
                    found.level = Some(self.text()?);
                }
                Kind::Key("qos-class") => self.ranges(&mut found.rule.classes)?,
                Kind::Key("source") => found.sources.extend(self.texts()?),
                Kind::Key("destination") => found.destinations.extend(self.texts()?),
                Kind::Key("service-id") => self.ranges(&mut found.rule.service_ids)?,
                Kind::Key("pkey") => self.pkeys(&mut found.rule.pkeys)?,
                Kind::Section("end-qos-match-rule") => break,
                _ => return Err(self.wrong(RULE)),
            }
        }
        if found.level.is_none() {
            needed(None::<Named>, found.rule.line, "qos-match-rule", "qos-level-name")?;
        }
        found.rule.description = description.unwrap_or_default();
        Ok(found)
    }

    /// Takes a text that may be given once.
    fn text_once(&mut self, held: &mut Option<String>, what: &str) -> Result<(), PolicyError> {
        self.once(held, what)?;
        *held = Some(self.text()?.1);
        Ok(())
    }

    pub(super) fn sl(&mut self) -> Result<Sl, PolicyError> {
        let found = self.byte((0, 15), SL)?;
        Ok(Sl::new(found).unwrap_or_default())
    }

    /// Takes ranges of port numbers, or `*` for all, into a set.
    pub(super) fn port_numbers(&mut self, set: &mut Ranges) -> Result<(), PolicyError> {
        let most = u64::from(PortNum::MAX.get());
        if self.takes(Kind::Star) {
            set.add(0, most);
            return Ok(());
        }
        let pairs = self.pairs(most, "a port number from 0 to 254, or *")?;
        pairs.into_iter().for_each(|(a, b)| set.add(a, b));
        Ok(())
    }
}

/// Parses `NODE_DESCRIPTION/P1`. The last slash separates; port 0 cannot be named.
fn port_name(line: usize, text: &str) -> Option<PortName> {
    let (node, port) = text.rsplit_once('/')?;
    let port = number(port.strip_prefix(['p', 'P'])?)?;
    let port = u8::try_from(port).ok().filter(|port| *port > 0)?;
    Some(PortName {
        line,
        node: node.to_owned(),
        port: PortNum::new(port)?,
    })
}
