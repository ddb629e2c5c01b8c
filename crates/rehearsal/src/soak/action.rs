//! Actions of a schedule upon a rehearsal: as values, and as text from which the values can be read again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use selvedge_emulator::Fault;
use selvedge_plan::{EngineName, OutOfService, Policy};
use selvedge_sim::Ratio;
use selvedge_types::{Lmc, Mtu};

/// Managers of a schedule.
pub(super) const MANAGERS: usize = 2;

/// Lease of M_Keys.
pub(super) const M_KEY_LEASE_S: u16 = 60;
/// The text of an empty list of places, and the separator between two places.
const NOTHING: &str = "none";
const BETWEEN: &str = "; ";

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A fault strikes, or ends.
    Fault(Fault),
    /// All nodes get power and all cables are plugged in.
    Heal,
    /// A manager starts.
    Start(usize),
    /// A manager is killed.
    Kill(usize),
    /// The operator asks a manager for a sweep.
    Sweep(usize),
    /// The operator loads a policy that differs from the last one in this setting.
    Policy(Setting),
    /// From now on, the disk of a manager fails, or works again.
    Disk {
        /// The manager.
        which: usize,
        /// The share of calls that fail, and the number of the seed from which they are drawn; `None`: the disk works.
        trouble: Option<(Ratio, u64)>,
    },
    /// Hosts keep the registrations that they want now.
    HostsSettle,
    /// Each host wants one more registration than before, or one fewer.
    HostsChange,
    /// Checks the answers that hosts got, and each asks for a path.
    HostsCheck,
    /// All is well: the state of the hardware goes into the end digest.
    Well,
    /// The run ends.
    End,
}

/// A part of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The engines, by preference.
    Engines(Vec<EngineName>),
    /// The LMC of hosts.
    Lmc(Lmc),
    /// The largest MTU.
    Mtu(Mtu),
    /// HOQLife of ports.
    HoqLife(u8),
    /// SubnetTimeOut of ports.
    SubnetTimeout(u8),
    /// The M_Key of ports; 0: none.
    MKey(u64),
    /// The places that are out of service.
    OutOfService(Arc<OutOfService>),
}

impl Setting {
    /// Sets this value in a policy.
    pub fn apply(self, policy: &mut Policy) {
        match self {
            Self::Engines(engines) => policy.engines = engines,
            Self::Lmc(lmc) => policy.lmc = lmc,
            Self::Mtu(mtu) => policy.mtu_max = mtu,
            Self::HoqLife(value) => policy.hoq_life = value,
            Self::SubnetTimeout(value) => policy.subnet_timeout = value,
            Self::MKey(key) => {
                (policy.m_key, policy.m_key_protect) = (key, u8::from(key != 0));
                policy.m_key_lease_s = if key == 0 { 0 } else { M_KEY_LEASE_S };
            }
            Self::OutOfService(list) => policy.out_of_service = list,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engines(engines) => {
                let names: Vec<&str> = engines.iter().map(|engine| &*engine.0).collect();
                write!(f, "engines {}", names.join(","))
            }
            Self::Lmc(lmc) => write!(f, "lmc {}", lmc.get()),
            Self::Mtu(mtu) => write!(f, "mtu {}", mtu.bytes()),
            Self::HoqLife(value) => write!(f, "hoq_life {value}"),
            Self::SubnetTimeout(value) => write!(f, "subnet_timeout {value}"),
            Self::MKey(key) => write!(f, "m_key {key}"),
            Self::OutOfService(list) if list.is_empty() => write!(f, "out_of_service {NOTHING}"),
            Self::OutOfService(list) => {
                let text = list.to_text();
                let lines: Vec<&str> = text.lines().collect();
                write!(f, "out_of_service {}", lines.join(BETWEEN))
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "fault {fault}"),
            Self::Heal => f.write_str("heal"),
            Self::Start(which) => write!(f, "start {which}"),
            Self::Kill(which) => write!(f, "kill {which}"),
            Self::Sweep(which) => write!(f, "sweep {which}"),
            Self::Policy(setting) => write!(f, "policy {setting}"),
            Self::Disk { which, trouble: None } => write!(f, "disk {which} works"),
            Self::Disk {
                which,
                trouble: Some((share, seed)),
            } => write!(f, "disk {which} fails {}/{} {seed}", share.numerator, share.denominator),
            Self::HostsSettle => f.write_str("hosts settle"),
            Self::HostsChange => f.write_str("hosts change"),
            Self::HostsCheck => f.write_str("hosts check"),
            Self::Well => f.write_str("well"),
            Self::End => f.write_str("end"),
        }
    }
}

/// An action as text.
pub(super) const ACTION_FORM: &str = "a time in ns and an action, as 120000 fault cut \"S-L1-0\"[3], start 0, kill 1, \
    sweep 0, policy lmc 1, disk 0 fails 1/2 3, disk 0 works, hosts settle, hosts change, hosts check, heal, well, end";

impl FromStr for Setting {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once(' ').ok_or(ACTION_FORM)?;
        let small = || value.parse::<u8>().map_err(|_| ACTION_FORM);
        match key {
            "engines" => Ok(Self::Engines(
                value.split(',').map(|name| EngineName(name.to_owned())).collect(),
            )),
            "lmc" => Lmc::new(small()?).map(Self::Lmc).ok_or(ACTION_FORM),
            "mtu" => {
                let bytes: u16 = value.parse().map_err(|_| ACTION_FORM)?;
                Mtu::try_from(bytes).map(Self::Mtu).map_err(|_| ACTION_FORM)
            }
            "hoq_life" => small().map(Self::HoqLife),
            "subnet_timeout" => small().map(Self::SubnetTimeout),
            "m_key" => value.parse().map(Self::MKey).map_err(|_| ACTION_FORM),
            "out_of_service" if value == NOTHING => Ok(Self::OutOfService(Arc::default())),
            "out_of_service" => {
                let list = OutOfService::parse(&value.replace(BETWEEN, "\n"));
                list.map(|list| Self::OutOfService(Arc::new(list)))
                    .map_err(|_| ACTION_FORM)
            }
            _ => Err(ACTION_FORM),
        }
    }
}

impl FromStr for Action {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |word: &str| {
            let number = word.parse().ok().filter(|number| *number < MANAGERS);
            number.ok_or(ACTION_FORM)
        };
        if let Some(fault) = text.strip_prefix("fault ") {
            return fault.parse().map(Self::Fault).map_err(|_| ACTION_FORM);
        }
        if let Some(setting) = text.strip_prefix("policy ") {
            return setting.parse().map(Self::Policy);
        }
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["heal"] => Ok(Self::Heal),
            ["start", which] => number(which).map(Self::Start),
            ["kill", which] => number(which).map(Self::Kill),
            ["sweep", which] => number(which).map(Self::Sweep),
            ["disk", which, "works"] => Ok(Self::Disk {
                which: number(which)?,
                trouble: None,
            }),
            ["disk", which, "fails", share, seed] => {
                let (numerator, denominator) = share.split_once('/').ok_or(ACTION_FORM)?;
                let part = |word: &str| word.parse::<u32>().ok().filter(|part| *part > 0).ok_or(ACTION_FORM);
                let share = Ratio {
                    numerator: part(numerator)?,
                    denominator: part(denominator)?,
                };
                let seed = seed.parse().map_err(|_| ACTION_FORM)?;
                Ok(Self::Disk {
                    which: number(which)?,
                    trouble: Some((share, seed)),
                })
            }
            ["hosts", "settle"] => Ok(Self::HostsSettle),
            ["hosts", "change"] => Ok(Self::HostsChange),
            ["hosts", "check"] => Ok(Self::HostsCheck),
            ["well"] => Ok(Self::Well),
            ["end"] => Ok(Self::End),
            _ => Err(ACTION_FORM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_m_key_is_read_as_it_is_written() {
        for key in [0, 0xfeed, u64::MAX] {
            let action = Action::Policy(Setting::MKey(key));
            assert_eq!(action.to_string().parse(), Ok(action));
            let mut policy = Policy::default();
            Setting::MKey(key).apply(&mut policy);
            assert_eq!((policy.m_key, policy.m_key_protect), (key, u8::from(key > 0)));
        }
        assert_eq!("policy m_key -1".parse::<Action>(), Err(ACTION_FORM));
    }

    #[test]
    fn a_list_of_places_is_read_as_it_is_written() {
        let two = "drain switch 0x10 since 5\nisolate link 0x10[3] 0x20[1] since 6 disabled 0x10[3]\n";
        for text in ["", two] {
            let list = Arc::new(OutOfService::parse(text).unwrap());
            let action = Action::Policy(Setting::OutOfService(Arc::clone(&list)));
            assert_eq!(action.to_string().lines().count(), 1);
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        assert_eq!("policy out_of_service all".parse::<Action>(), Err(ACTION_FORM));
    }
}
