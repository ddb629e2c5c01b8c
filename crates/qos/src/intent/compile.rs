//! From classes to service levels, lanes and weights.

use selvedge_types::{Mtu, Sl};

use super::offer::offer;
use super::quota::{Room, packets_of_entry, units};
use super::{Class, ClassPlan, Compiled, Hardware, Intent, IntentError, Latency, Refused, Why};
use crate::near::meant;

/// Compiles an intent for links of this hardware, with this many layers of routing.
pub fn compile(intent: &Intent, hardware: &Hardware, layers: u8) -> Result<Compiled, IntentError> {
    let default = checked(intent, hardware, layers)?;
    plan(intent, hardware, layers, default).map_err(|why| {
        let offer = offer(intent, hardware, layers);
        Refused { why, offer }.into()
    })
}

/// Returns the most that a low-latency class takes of a link while normal classes want it, in percent, rounded up.
/// `None`: nothing limits it.
#[must_use]
pub fn most_of(compiled: &Compiled, class: usize) -> Option<u32> {
    let plan = compiled.classes.get(class);
    let plan = plan.filter(|plan| plan.class.latency == Latency::Low)?;
    let classes: Vec<(&Class, Mtu)> = compiled.classes.iter().map(|plan| (&plan.class, plan.mtu)).collect();
    Some(most_of_link(plan.mtu, smallest_normal(&classes)?))
}

/// Checks what no hardware could mend. Returns the place of the default class.
fn checked(intent: &Intent, hardware: &Hardware, layers: u8) -> Result<usize, IntentError> {
    let classes = &intent.classes;
    if classes.is_empty() {
        return Err(IntentError::NoClass);
    }
    if !(1..=15).contains(&layers) || !(1..=15).contains(&hardware.lanes) {
        let lanes = hardware.lanes;
        return Err(IntentError::NoLanes { layers, lanes });
    }
    for (at, class) in classes.iter().enumerate() {
        let is_taken = classes[..at].iter().any(|other| other.name == class.name);
        if is_taken || class.name.is_empty() {
            let name = class.name.clone();
            return Err(IntentError::SameName { name });
        }
        for (what, value) in [("share", class.share), ("cap", class.cap)] {
            if let Some(found) = value.filter(|value| !(1..=100).contains(value)) {
                let class = class.name.clone();
                return Err(IntentError::NoPercentage { class, what, found });
            }
        }
    }
    let default = classes.iter().position(|class| class.name == intent.default);
    default.ok_or_else(|| IntentError::UnknownDefault {
        name: intent.default.clone(),
        meant: meant(&intent.default, classes.iter().map(|class| &class.name)),
    })
}

/// Returns the tables' numbers, or why there are none.
pub(super) fn plan(intent: &Intent, hardware: &Hardware, layers: u8, default: usize) -> Result<Compiled, Why> {
    let classes = &intent.classes;
    enough_left(classes)?;
    enough_lanes(classes, hardware, layers)?;
    let mtus: Vec<Mtu> = mtus(classes, hardware)?;
    latency_shares(classes, &mtus, hardware)?;
    let normal: Vec<usize> = (0..classes.len())
        .filter(|&at| classes[at].latency == Latency::Normal)
        .collect();
    let shares: Vec<Option<u8>> = normal.iter().map(|&at| classes[at].share).collect();
    let packets = match classes.len() * usize::from(layers) {
        // One lane needs no arbitration.
        1 => vec![1; normal.len()],
        _ => room(hardware, layers).exact(&shares).ok_or(Why::TooFine {
            has: hardware.vl_arb_low,
            packets: packets_of_entry(hardware.mtu),
            mtu: hardware.mtu.bytes(),
        })?,
    };
    let sl = |class: usize, layer: u8| Sl::new(place_of(class, default) as u8 * layers + layer).unwrap_or_default();
    let plans = classes
        .iter()
        .zip(mtus)
        .enumerate()
        .map(|(at, (class, mtu))| ClassPlan {
            class: class.clone(),
            sls: (0..layers).map(|layer| sl(at, layer)).collect(),
            mtu,
            packets: normal.iter().position(|of| *of == at).map_or(0, |place| packets[place]),
        });
    Ok(Compiled {
        hardware: *hardware,
        layers,
        classes: plans.collect(),
        default,
        groups: intent.groups.clone(),
    })
}

/// Returns the place of a class in the order of service levels. The default class is first: hosts that do not ask send
/// with SL 0.
pub(super) const fn place_of(class: usize, default: usize) -> usize {
    match class {
        _ if class == default => 0,
        _ if class < default => class + 1,
        _ => class,
    }
}

/// Returns the room in the low-priority table of links of this hardware.
pub(super) const fn room(hardware: &Hardware, layers: u8) -> Room {
    Room {
        entries: if hardware.vl_arb_low > 64 {
            64
        } else {
            hardware.vl_arb_low as u32
        },
        layers: layers as u32,
        of_entry: packets_of_entry(hardware.mtu),
    }
}

/// Percent that shares must leave: one for each normal class without a share.
pub(super) fn needed_by_others(classes: &[Class]) -> u32 {
    let open = |class: &&Class| class.latency == Latency::Normal && class.share.is_none();
    classes.iter().filter(open).count() as u32
}

fn enough_left(classes: &[Class]) -> Result<(), Why> {
    let sum = classes.iter().filter_map(|class| class.share).map(u32::from).sum();
    let left = needed_by_others(classes);
    match sum + left > 100 {
        true => Err(Why::TooMuch { sum, left }),
        false => Ok(()),
    }
}

fn enough_lanes(classes: &[Class], hardware: &Hardware, layers: u8) -> Result<(), Why> {
    let layers = usize::from(layers);
    let need = classes.len() * layers;
    let low_latency = classes.iter().filter(|class| class.latency == Latency::Low).count() * layers;
    if need > Sl::COUNT {
        let classes = classes.len();
        return Err(Why::TooFewSls { classes, layers });
    }
    if need > usize::from(hardware.lanes) {
        let (classes, lanes) = (classes.len(), hardware.lanes);
        return Err(Why::TooFewLanes { classes, layers, lanes });
    }
    let tables = [
        ("high", low_latency, hardware.vl_arb_high),
        ("low", need - low_latency, hardware.vl_arb_low),
    ];
    for (table, need_here, has) in tables {
        if need > 1 && need_here > usize::from(has) {
            let need = need_here;
            return Err(Why::TooFewEntries { table, need, has });
        }
    }
    Ok(())
}

/// Returns the MTU of each class. A cap of a low-latency class without an MTU gets the largest MTU that keeps it.
fn mtus(classes: &[Class], hardware: &Hardware) -> Result<Vec<Mtu>, Why> {
    let of = |class: &Class| class.mtu.map_or(hardware.mtu, |mtu| mtu.min(hardware.mtu));
    let normal: Vec<(&Class, Mtu)> = classes.iter().map(|class| (class, of(class))).collect();
    let smallest = smallest_normal(&normal);
    let mtu = |class: &Class| {
        let Some(cap) = class.cap else { return Ok(of(class)) };
        let refused = |why| Why::NoCap {
            class: class.name.clone(),
            cap,
            why,
        };
        if class.latency == Latency::Normal {
            return Err(refused(
                "a normal class may use what others leave; limit the rate of its paths",
            ));
        }
        let Some(smallest) = smallest else {
            return Err(refused("there is no normal class that could take the rest"));
        };
        let keeps = |mtu: &Mtu| most_of_link(*mtu, smallest) <= u32::from(cap);
        let found = match class.mtu {
            Some(_) => Some(of(class)).filter(keeps),
            None => (1..=hardware.mtu.code()).rev().filter_map(Mtu::from_code).find(keeps),
        };
        found.ok_or_else(|| {
            refused(
                "a packet of a normal class follows each packet of this class, and the MTU of this class is too large",
            )
        })
    };
    classes.iter().map(mtu).collect()
}

/// Returns the smallest MTU of the normal classes.
fn smallest_normal(classes: &[(&Class, Mtu)]) -> Option<Mtu> {
    let normal = classes.iter().filter(|(class, _)| class.latency == Latency::Normal);
    normal.map(|(_, mtu)| *mtu).min()
}

/// Returns the most that packets of one MTU take of a link, in percent, rounded up, if a packet of the other MTU
/// follows each. Headers take up to one unit of 64 bytes.
pub(super) const fn most_of_link(mtu: Mtu, other: Mtu) -> u32 {
    let own = units(mtu) + 1;
    (100 * own).div_ceil(own + units(other))
}

/// Returns the least that a low-latency class gets of a link, in percent.
pub(super) fn least_of_latency(classes: &[Class], mtus: &[Mtu], at: usize, largest: Mtu) -> u32 {
    let low_latency = |(class, mtu): (&Class, &Mtu)| (class.latency == Latency::Low).then_some(units(*mtu) + 1);
    let high: Vec<u32> = classes.iter().zip(mtus).filter_map(low_latency).collect();
    // One packet of low priority follows each packet of high priority.
    let round: u32 = high.iter().map(|own| own + units(largest) + 1).sum();
    100 * units(mtus[at]) / round.max(1)
}

fn latency_shares(classes: &[Class], mtus: &[Mtu], hardware: &Hardware) -> Result<(), Why> {
    for (at, class) in classes.iter().enumerate() {
        let Some(share) = class.share.filter(|_| class.latency == Latency::Low) else {
            continue;
        };
        let least = least_of_latency(classes, mtus, at, hardware.mtu);
        if u32::from(share) > least {
            return Err(Why::LatencyShare {
                class: class.name.clone(),
                share,
                least: u8::try_from(least).unwrap_or(100),
            });
        }
    }
    Ok(())
}

/// Returns the MTUs of the classes, without regard to caps.
pub(super) fn plain_mtus(classes: &[Class], hardware: &Hardware) -> Vec<Mtu> {
    let of = |class: &Class| class.mtu.map_or(hardware.mtu, |mtu| mtu.min(hardware.mtu));
    classes.iter().map(of).collect()
}
