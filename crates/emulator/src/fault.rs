//! Faults, as values and as text.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::sync::LazyLock;

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;
use selvedge_sim::{Ratio, Time};
use selvedge_types::PhysState;

use crate::config::nanos;
use crate::load::{self, Demands};
use crate::text::{DurationText, RatioText, duration, no, ratio_word, value, words};
use crate::wrapper::Impairment;
use crate::{Amount, Emulator, EmulatorError, ErrorCounter, Load, NodeName, PortName, Ratios, Readings, cable};

/// A kind of fault: its first word, its syntax, its effect. The parser accepts only these.
#[derive(Clone, Copy, Debug)]
pub struct FaultForm {
    /// The first word.
    pub name: &'static str,
    /// Syntax of the fault.
    pub form: &'static str,
    /// Effect of the fault.
    pub what: &'static str,
}

const fn form(name: &'static str, form: &'static str, what: &'static str) -> FaultForm {
    FaultForm { name, form, what }
}

/// All kinds of faults. The parser, its messages and the help text use this table.
pub const FAULT_FORMS: [FaultForm; 24] = [
    form("cut", "cut PORT", "unplugs the cable"),
    form("restore", "restore PORT", "plugs the cable in again"),
    form(
        "flap",
        "flap PORT times=3 down=10ms up=20ms",
        "unplugs and plugs in, repeatedly",
    ),
    form("kill", "kill NODE", "switches the node off"),
    form("revive", "revive NODE", "switches the node on, with empty tables"),
    form("reboot", "reboot NODE", "switches the node off and on"),
    form("hang", "hang NODE", "stops the node's agents; the node still forwards"),
    form("unhang", "unhang NODE", "lets the agents go on"),
    form(
        "slow",
        "slow NODE by=5ms",
        "delays each answer of the agents (0ms ends it)",
    ),
    form("lie", "lie NODE", "acknowledges LFT blocks without storing them"),
    form("honest", "honest NODE", "ends lie"),
    form(
        "shy",
        "shy NODE",
        "shows extended speeds only to managers that ask for them",
    ),
    form(
        "clone",
        "clone NODE of NODE",
        "shows the GUIDs of the second node (of itself: its own)",
    ),
    form(
        "clear-is-sm",
        "clear-is-sm PORT",
        "clears IsSM at an end port, as a reset of its driver does",
    ),
    form("swap", "swap PORT with PORT", "exchanges two cables"),
    form("loss", "loss RATIO [at PORT]", "loses MADs"),
    form("duplicate", "duplicate RATIO [at PORT]", "delivers MADs twice"),
    form("corrupt", "corrupt RATIO [at PORT]", "flips a bit of MADs"),
    form(
        "delay",
        "delay RATIO max=5ms [at PORT]",
        "delays MADs, so that others overtake them",
    ),
    form(
        "load",
        "load LOAD",
        "lets hosts send, so that counters move (off ends it)",
    ),
    form(
        "stall",
        "stall PORT RATIO",
        "its host takes nothing for that share of the time",
    ),
    form(
        "errors",
        "errors PORT COUNTER AMOUNT",
        "counts errors of a port ('errors PORT off' ends it)",
    ),
    form(
        "ber",
        "ber PORT BER BER",
        "bit error ratios before and after correction (or off)",
    ),
    form(
        "cable",
        "cable PORT temperature=71 rx-power=120",
        "what the cable measures, in C and uW (or off)",
    ),
];

/// Meaning of the words in capitals.
pub const FAULT_WORDS: &str = "PORT as \"S-L1-0\"[20], NODE as \"S-L1-0\" or 0x<GUID>, RATIO as 1% or 1/200 (0% ends \
    it), LOAD as uniform 40%, shift:1 40%, permutation 40%, bit-reversal 40%, incast:NODE 90% among NODE NODE, or \
    pairs:NODE>NODE,NODE>NODE 90%, several with + between them, size=BYTES behind them (RATIOs of the hosts' links), \
    COUNTER as symbol, link-recovery or rcv (or as perfquery prints it), AMOUNT as 3, 5/s, 5/min or 5/h, BER as 2e-5 \
    or 1.5e-12";

/// The syntax of faults in one line, for messages.
static GRAMMAR: LazyLock<String> = LazyLock::new(|| {
    let forms = FAULT_FORMS.map(|of| of.form);
    format!("{}; {FAULT_WORDS}", forms.join(" | "))
});

/// A fault, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Unplugs the cable at a port.
    CutLink(PortName),
    /// Plugs the cable in again, and the link trains.
    RestoreLink(PortName),
    /// Unplugs and plugs in a cable repeatedly.
    Flap {
        /// The port.
        port: PortName,
        /// Number of repetitions.
        times: u16,
        /// How long the cable stays unplugged.
        down: Duration,
        /// How long the cable stays plugged in.
        up: Duration,
    },
    /// Powers a switch or host off.
    Kill(NodeName),
    /// Powers a switch or host on again, with empty tables.
    Revive(NodeName),
    /// Powers a switch or host off and on at once: links train again, tables are empty.
    Reboot(NodeName),
    /// The node's agents stop answering. The node still forwards.
    Hang(NodeName),
    /// The agents continue with the waiting requests.
    Unhang(NodeName),
    /// The node's agents take this much longer for each request; zero ends the fault.
    Slow(NodeName, Duration),
    /// The switch acknowledges LFT blocks without storing them. A Get returns the real contents.
    Lie(NodeName),
    /// The switch stores LFT blocks again.
    Honest(NodeName),
    /// From now on the node shows the extended speeds (FDR to NDR) only if bit 31 of PortInfo's modifier shows that the
    /// sender supports them, as Quantum-2 switches do. Source: linux-rdma/opensm, issue 38 and pull request 39.
    Shy(NodeName),
    /// Clears IsSM in the CapabilityMask of an end port, as a reset of its driver does. The manager at this port gets
    /// no notice.
    ClearIsSm(PortName),
    /// Exchanges the cables of two ports, as after a mistake of a technician.
    Swap(PortName, PortName),
    /// The first node shows the GUIDs of the second, as after a mistake with a flashing tool. If both are the same
    /// node, it shows its own GUIDs again.
    Clone(NodeName, NodeName),
    /// MADs are lost: each with this probability once, or at each crossing of the link at `port`.
    Loss(Ratio, Option<PortName>),
    /// MADs arrive twice: each with this probability, on the link at this port or everywhere.
    Duplicate(Ratio, Option<PortName>),
    /// One bit of a MAD is flipped, with this probability, on the link at this port or everywhere. Real links detect
    /// that with a check sum; here it tests the decoders.
    Corrupt(Ratio, Option<PortName>),
    /// MADs are delayed by up to `max`, so that later ones can overtake them.
    Delay {
        /// Probability.
        ratio: Ratio,
        /// Longest delay.
        max: Duration,
        /// The link at this port; `None`: all links.
        port: Option<PortName>,
    },
    /// Hosts send this traffic instead of what they sent before.
    Load(Load),
    /// The host at an end port takes no packets of a load for this share of the time, so that the port before it lacks
    /// credits.
    Stall(PortName, Ratio),
    /// A port counts errors, once or from now on.
    Errors(PortName, ErrorCounter, Amount),
    /// A port counts no more errors of [`Self::Errors`].
    ErrorsOff(PortName),
    /// The receiver of a port has these bit error ratios; `None`: those of a good cable.
    Ber(PortName, Option<Ratios>),
    /// A port measures this at its end of the cable; `None`: what a good cable has.
    Cable(PortName, Option<Readings>),
}

/// Rare events: faults and commands with resolved names, and timers.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Cut(PortIdx),
    Restore(PortIdx),
    Kill(NodeIdx),
    Revive(NodeIdx),
    Reboot(NodeIdx),
    Hang(NodeIdx),
    Unhang(NodeIdx),
    Slow(NodeIdx, u64),
    Lie(NodeIdx),
    Honest(NodeIdx),
    Shy(NodeIdx),
    Swap(PortIdx, PortIdx),
    Clone {
        node: NodeIdx,
        original: NodeIdx,
    },
    Impair {
        link: Option<PortIdx>,
        impairment: Impairment,
    },
    Load(Box<Demands>),
    Stall(PortIdx, Ratio),
    Errors(PortIdx, ErrorCounter, Amount),
    ErrorsOff(PortIdx),
    Ber(PortIdx, Option<Ratios>),
    Cable(PortIdx, Option<Readings>),
    IsSm {
        port: PortIdx,
        is_sm: bool,
    },
    Link {
        port: PortIdx,
        state: PhysState,
    },
    /// A link makes one step of its training.
    Train {
        port: PortIdx,
        attempt: u32,
    },
    /// A trap is due to be repeated.
    TrapDue {
        node: NodeIdx,
        serial: u32,
    },
}

impl Emulator {
    /// Applies a fault at `now`: before other events of that instant, and in the order of the calls.
    pub fn apply(&mut self, now: Time, fault: &Fault) -> Result<(), EmulatorError> {
        let action = match fault {
            Fault::CutLink(port) => Action::Cut(self.link_at(port)?),
            Fault::RestoreLink(port) => Action::Restore(self.link_at(port)?),
            Fault::Flap { port, times, down, up } => {
                let port = self.link_at(port)?;
                let mut at = now.max(self.now);
                for _ in 0..*times {
                    self.command(at, Action::Cut(port));
                    self.command(at + *down, Action::Restore(port));
                    at = at + *down + *up;
                }
                return Ok(());
            }
            Fault::Kill(node) => Action::Kill(node.find(self.chassis.fabric())?),
            Fault::Revive(node) => Action::Revive(node.find(self.chassis.fabric())?),
            Fault::Reboot(node) => Action::Reboot(node.find(self.chassis.fabric())?),
            Fault::Hang(node) => Action::Hang(node.find(self.chassis.fabric())?),
            Fault::Unhang(node) => Action::Unhang(node.find(self.chassis.fabric())?),
            Fault::Slow(node, by) => Action::Slow(node.find(self.chassis.fabric())?, nanos(*by)),
            Fault::Lie(node) => Action::Lie(node.find(self.chassis.fabric())?),
            Fault::Honest(node) => Action::Honest(node.find(self.chassis.fabric())?),
            Fault::Shy(node) => Action::Shy(node.find(self.chassis.fabric())?),
            Fault::ClearIsSm(name) => {
                let port = self.end_port(name.end_port(self.chassis.fabric())?)?;
                Action::IsSm { port, is_sm: false }
            }
            Fault::Swap(a, b) => Action::Swap(self.link_at(a)?, self.link_at(b)?),
            Fault::Clone(node, original) => Action::Clone {
                node: node.find(self.chassis.fabric())?,
                original: original.find(self.chassis.fabric())?,
            },
            Fault::Loss(ratio, port) => self.impairment(Impairment::Loss(*ratio), port.as_ref())?,
            Fault::Duplicate(ratio, port) => self.impairment(Impairment::Duplicate(*ratio), port.as_ref())?,
            Fault::Corrupt(ratio, port) => self.impairment(Impairment::Corrupt(*ratio), port.as_ref())?,
            Fault::Delay { ratio, max, port } => {
                let (ratio, max_ns) = (*ratio, nanos(*max));
                self.impairment(Impairment::Delay { ratio, max_ns }, port.as_ref())?
            }
            Fault::Load(load) => Action::Load(Box::new(Demands::new(&self.chassis, load)?)),
            Fault::Stall(port, share) => {
                let at = self.end_port(port.end_port(self.chassis.fabric())?)?;
                Action::Stall(at, *share)
            }
            Fault::Errors(port, counter, amount) => Action::Errors(self.port_named(port)?, *counter, *amount),
            Fault::Ber(port, ratios) => Action::Ber(self.link_at(port)?, *ratios),
            Fault::Cable(port, readings) => Action::Cable(self.link_at(port)?, *readings),
            Fault::ErrorsOff(port) => Action::ErrorsOff(self.port_named(port)?),
        };
        self.command(now, action);
        Ok(())
    }

    fn impairment(&self, impairment: Impairment, port: Option<&PortName>) -> Result<Action, EmulatorError> {
        let link = port.map(|name| self.link_at(name)).transpose()?;
        Ok(Action::Impair { link, impairment })
    }

    /// Returns a port; without a number, the end port of the node.
    fn port_named(&self, name: &PortName) -> Result<PortIdx, EmulatorError> {
        let at = match name.port {
            Some(_) => name.find(self.chassis.fabric())?,
            None => name.end_port(self.chassis.fabric())?,
        };
        self.chassis.port_idx(at).ok_or_else(|| EmulatorError::NoCable {
            port: self.chassis.fabric().port_name(at),
        })
    }

    fn link_at(&self, name: &PortName) -> Result<PortIdx, EmulatorError> {
        let at = name.find(self.chassis.fabric())?;
        let port = self.chassis.port_idx(at);
        match port.filter(|&p| self.chassis.wire(p).peer().is_some()) {
            Some(port) => Ok(port),
            None => Err(EmulatorError::NoCable {
                port: self.chassis.fabric().port_name(at),
            }),
        }
    }
}

impl FromStr for Fault {
    type Err = EmulatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text)
    }
}

fn parse(text: &str) -> Result<Fault, EmulatorError> {
    let words = words(text.trim());
    let words: Vec<&str> = words.iter().map(|w| &**w).collect();
    let port = |word: &str| word.parse::<PortName>();
    let node = |word: &str| word.parse::<NodeName>();
    let Some(kind) = words.first() else {
        return Err(no("", &GRAMMAR));
    };
    let Some(known) = FAULT_FORMS.iter().find(|of| of.name == *kind) else {
        return Err(no(kind, &GRAMMAR));
    };
    match words[..] {
        ["cut", at] => port(at).map(Fault::CutLink),
        ["restore", at] => port(at).map(Fault::RestoreLink),
        ["flap", at, times, down, up] => Ok(Fault::Flap {
            port: port(at)?,
            times: value(times, "times=", "times=N, N from 0 to 65535", |n| n.parse().ok())?,
            down: value(down, "down=", "down=TIME, as down=10ms", duration)?,
            up: value(up, "up=", "up=TIME, as up=20ms", duration)?,
        }),
        ["kill", at] => node(at).map(Fault::Kill),
        ["revive", at] => node(at).map(Fault::Revive),
        ["reboot", at] => node(at).map(Fault::Reboot),
        ["hang", at] => node(at).map(Fault::Hang),
        ["unhang", at] => node(at).map(Fault::Unhang),
        ["slow", at, by] => {
            let by = value(by, "by=", "by=TIME, as by=5ms", duration)?;
            Ok(Fault::Slow(node(at)?, by))
        }
        ["lie", at] => node(at).map(Fault::Lie),
        ["honest", at] => node(at).map(Fault::Honest),
        ["shy", at] => node(at).map(Fault::Shy),
        ["clear-is-sm", at] => port(at).map(Fault::ClearIsSm),
        ["swap", a, "with", b] => Ok(Fault::Swap(port(a)?, port(b)?)),
        ["clone", at, "of", original] => Ok(Fault::Clone(node(at)?, node(original)?)),
        ["delay", of, max, ref rest @ ..] => Ok(Fault::Delay {
            ratio: ratio_word(of)?,
            max: value(max, "max=", "max=TIME, as max=5ms", duration)?,
            port: optional_port(rest)?,
        }),
        [kind @ ("loss" | "duplicate" | "corrupt"), of, ref rest @ ..] => {
            let (ratio, port) = (ratio_word(of)?, optional_port(rest)?);
            Ok(match kind {
                "loss" => Fault::Loss(ratio, port),
                "duplicate" => Fault::Duplicate(ratio, port),
                _ => Fault::Corrupt(ratio, port),
            })
        }
        ["load", ref words @ ..] => load::parse(words).map(Fault::Load),
        ["ber", at, ref words @ ..] => Ok(Fault::Ber(port(at)?, cable::parse_ratios(words)?)),
        ["cable", at, ref words @ ..] => Ok(Fault::Cable(port(at)?, cable::parse_readings(words)?)),
        ["errors", at, "off"] => port(at).map(Fault::ErrorsOff),
        ["stall", at, of] => Ok(Fault::Stall(port(at)?, ratio_word(of)?)),
        ["errors", at, counter, amount] => Ok(Fault::Errors(port(at)?, counter.parse()?, amount.parse()?)),
        // Too many or too few words.
        _ => Err(no(text.trim(), known.form)),
    }
}

fn optional_port(words: &[&str]) -> Result<Option<PortName>, EmulatorError> {
    match words {
        [] => Ok(None),
        ["at", port] => port.parse().map(Some),
        _ => Err(no(&words.join(" "), "nothing, or 'at PORT'")),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ratio, port) = match self {
            Self::CutLink(port) => return write!(f, "cut {port}"),
            Self::RestoreLink(port) => return write!(f, "restore {port}"),
            Self::Flap { port, times, down, up } => {
                let (down, up) = (DurationText(*down), DurationText(*up));
                return write!(f, "flap {port} times={times} down={down} up={up}");
            }
            Self::Kill(node) => return write!(f, "kill {node}"),
            Self::Revive(node) => return write!(f, "revive {node}"),
            Self::Reboot(node) => return write!(f, "reboot {node}"),
            Self::Hang(node) => return write!(f, "hang {node}"),
            Self::Unhang(node) => return write!(f, "unhang {node}"),
            Self::Slow(node, by) => return write!(f, "slow {node} by={}", DurationText(*by)),
            Self::Lie(node) => return write!(f, "lie {node}"),
            Self::Honest(node) => return write!(f, "honest {node}"),
            Self::Shy(node) => return write!(f, "shy {node}"),
            Self::ClearIsSm(port) => return write!(f, "clear-is-sm {port}"),
            Self::Swap(a, b) => return write!(f, "swap {a} with {b}"),
            Self::Clone(node, original) => return write!(f, "clone {node} of {original}"),
            Self::Load(load) => return write!(f, "load {load}"),
            Self::Stall(port, share) => return write!(f, "stall {port} {}", RatioText(*share)),
            Self::Errors(port, counter, amount) => return write!(f, "errors {port} {counter} {amount}"),
            Self::ErrorsOff(port) => return write!(f, "errors {port} off"),
            Self::Ber(port, None) => return write!(f, "ber {port} off"),
            Self::Ber(port, Some(of)) => return write!(f, "ber {port} {} {}", of.raw, of.effective),
            Self::Cable(port, None) => return write!(f, "cable {port} off"),
            Self::Cable(port, Some(readings)) => return write!(f, "cable {port}{readings}"),
            Self::Loss(ratio, port) => ("loss", ratio, port),
            Self::Duplicate(ratio, port) => ("duplicate", ratio, port),
            Self::Corrupt(ratio, port) => ("corrupt", ratio, port),
            Self::Delay { ratio, port, .. } => ("delay", ratio, port),
        };
        write!(f, "{name} {}", RatioText(*ratio))?;
        if let Self::Delay { max, .. } = self {
            write!(f, " max={}", DurationText(*max))?;
        }
        match port {
            Some(port) => write!(f, " at {port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_printed() {
        let check = |text: &str, printed: &str| {
            let fault: Fault = text.parse().unwrap();
            assert_eq!(fault.to_string(), printed);
            assert_eq!(printed.parse::<Fault>().unwrap(), fault, "{printed}");
        };
        check("cut \"S-L1-0\"[20]", "cut \"S-L1-0\"[20]");
        check("  restore S-L1-0[20] ", "restore \"S-L1-0\"[20]");
        check("cut \"a \\\"b\\\" \\\\\"[1]", "cut \"a \\\"b\\\" \\\\\"[1]");
        check(
            "flap \"s 1\"[2] times=3 down=1000us up=2s",
            "flap \"s 1\"[2] times=3 down=1ms up=2s",
        );
        check("kill 0x10", "kill 0x0000000000000010");
        check("revive x", "revive \"x\"");
        check("reboot \"S-L2-1\"", "reboot \"S-L2-1\"");
        check("hang 0xnode", "hang \"0xnode\"");
        check("unhang a", "unhang \"a\"");
        check("slow a by=1500us", "slow \"a\" by=1500us");
        check("lie a", "lie \"a\"");
        check("honest 0x10", "honest 0x0000000000000010");
        check("shy a", "shy \"a\"");
        check("clear-is-sm H-0", "clear-is-sm \"H-0\"");
        check("clear-is-sm H-0[1]", "clear-is-sm \"H-0\"[1]");
        check("swap s[1] with t[2]", "swap \"s\"[1] with \"t\"[2]");
        check("clone a of 0x10", "clone \"a\" of 0x0000000000000010");
        check("stall H-0 25%", "stall \"H-0\" 25%");
        check("loss 1%", "loss 1%");
        check("loss 0.25% at s[1]", "loss 0.25% at \"s\"[1]");
        check("duplicate 1/200", "duplicate 1/200");
        check("corrupt 100%", "corrupt 100%");
        check("delay 5% max=1500us", "delay 5% max=1500us");
        check("delay 5% max=7ns at s[9]", "delay 5% max=7ns at \"s\"[9]");
    }

    #[test]
    fn what_is_no_fault_is_refused() {
        for text in [
            "",
            "cut",
            "cut \"S",
            "cut S[1] now",
            "cut S[",
            "cut S[x]",
            "cut S[256]",
            "kill S[1]",
            "explode S",
            "clone S",
            "clone S of",
            "clone S of S[1]",
            "slow S",
            "slow S 5ms",
            "swap S[1] S[2]",
            "loss",
            "loss 1",
            "loss 101%",
            "loss 2/1",
            "loss 1/0",
            "loss -1%",
            "loss .%",
            "loss 1% in S[1]",
            "loss 0.00000001%",
            "delay 1%",
            "delay 1% max=5",
            "delay 1% max=5h",
            "flap S[1]",
            "flap S[1] 1 2 3",
            "flap S[1] times=70000 down=1s up=1s",
        ] {
            assert!(
                matches!(text.parse::<Fault>(), Err(EmulatorError::Syntax { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_name_the_wrong_word() {
        let check = |text: &str, word: &str, want: &str| {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            let begin = format!("SLV-EMU-0008: cannot read '{word}': want {want}");
            assert!(error.starts_with(&begin), "{error}");
        };
        check("loss 101%", "101%", "a RATIO up to 100%");
        check("loss 1% in S[1]", "in S[1]", "nothing, or 'at PORT'");
        check("flap S[1] times=70000 down=1s up=1s", "times=70000", "times=N");
        check("flap S[1] times=3 down=1h up=1s", "down=1h", "down=TIME");
        check("flap S[1] times=3 down=1s 1s", "1s", "up=TIME");
        check("delay 1% max=5", "max=5", "max=TIME");
        check("cut S[1] now", "cut S[1] now", "cut PORT");
        check("explode S", "explode", "cut PORT | restore PORT |");
    }

    #[test]
    fn every_form_of_the_table_can_be_read() {
        for FaultForm { name, form, .. } in FAULT_FORMS {
            let text = form
                .replace("PORT", "\"S\"[1]")
                .replace("NODE", "S")
                .replace("LOAD", "shift:2 1% among S T + uniform 2% size=256")
                .replace("COUNTER AMOUNT", "symbol 5/s")
                .replace("BER BER", "2e-5 1e-12")
                .replace("RATIO", "1%");
            let whole = text.replace(['[', ']'], " ").replace("S\" 1 ", "S\"[1]");
            let bare = text.split(" [at").next().unwrap();
            for text in [bare, whole.trim()] {
                let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
                assert!(fault.to_string().starts_with(name), "{fault}");
            }
            assert!(GRAMMAR.contains(form), "{form}");
        }
    }
}
