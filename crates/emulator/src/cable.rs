//! Cables, and how well their receivers read them: what the vendor class shows.
//!
//! Every cable has a vendor, part number and serial number, drawn from the seed, the same at both ends. A receiver of
//! HDR or faster has some bit errors before its error correction and none after it. The faults `ber` and `cable` make
//! one end worse. Bits that are in error after correction count as SymbolErrorCounter.

use core::fmt;
use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, DetailRow, PortIdx};
use selvedge_sim::{Seed, Time};
use selvedge_types::{LinkSpeed, PhysState, Rate};
use selvedge_wire::{Ber, CableInfo, CableKind, PortBer, PortExtSpeedsCounters};

use crate::meter::Meter;
use crate::{EmulatorError, text};

/// Bit error ratios of a receiver before and after correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratios {
    /// Before correction.
    pub raw: Ber,
    /// After correction.
    pub effective: Ber,
}

/// What an end of a cable measures, where it differs from a good cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Temperature in °C.
    pub temperature_c: Option<i8>,
    /// Received power of each lane in µW.
    pub rx_power_uw: Option<u16>,
}

impl fmt::Display for Readings {
    /// Prints ` temperature=71 rx-power=120`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(celsius) = self.temperature_c {
            write!(f, " temperature={celsius}")?;
        }
        match self.rx_power_uw {
            Some(uw) => write!(f, " rx-power={uw}"),
            None => Ok(()),
        }
    }
}

const WANT_BER: &str = "RATIO [RATIO] before and after error correction, as 2e-5 1.5e-12; or off";
const WANT_READINGS: &str = "temperature=C from -128 to 127, rx-power=UW up to 6553; or off";

/// Parses what stands behind the port of a `ber`; `None`: off.
pub(crate) fn parse_ratios(words: &[&str]) -> Result<Option<Ratios>, EmulatorError> {
    let ber = |word: &str| Ber::parse(word).ok_or_else(|| text::no(word, WANT_BER));
    match *words {
        ["off"] => Ok(None),
        [raw] => Ok(Some(Ratios {
            raw: ber(raw)?,
            effective: Ber::default(),
        })),
        [raw, effective] => Ok(Some(Ratios {
            raw: ber(raw)?,
            effective: ber(effective)?,
        })),
        _ => Err(text::no(&words.join(" "), WANT_BER)),
    }
}

/// Parses what stands behind the port of a `cable`; `None`: off.
pub(crate) fn parse_readings(words: &[&str]) -> Result<Option<Readings>, EmulatorError> {
    let mut readings = Readings::default();
    match words {
        ["off"] => return Ok(None),
        [] => return Err(text::no("", WANT_READINGS)),
        _ => {}
    }
    for word in words {
        match word.split_once('=') {
            Some(("temperature", value)) => readings.temperature_c = value.parse().ok(),
            Some(("rx-power", value)) => readings.rx_power_uw = value.parse().ok().filter(|uw| *uw <= RX_POWER_MAX_UW),
            _ => return Err(text::no(word, WANT_READINGS)),
        }
        let is_read = match word.starts_with('t') {
            true => readings.temperature_c.is_some(),
            false => readings.rx_power_uw.is_some(),
        };
        if !is_read {
            return Err(text::no(word, WANT_READINGS));
        }
    }
    Ok(Some(readings))
}

/// Largest power that CableInfo can show: 16 bits of 0.1 µW.
const RX_POWER_MAX_UW: u16 = u16::MAX / 10;

/// A receiver with errors.
#[derive(Clone, Copy, Debug)]
struct Receiver {
    ratios: Ratios,
    raw: Meter,
    effective: Meter,
    /// What the meters had counted when the counters of the port were lost.
    lost: (u64, u64),
}

/// All cables.
#[derive(Clone, Debug)]
pub(crate) struct Cables {
    seed: Seed,
    receivers: BTreeMap<PortIdx, Receiver>,
    readings: BTreeMap<PortIdx, Readings>,
}

impl Cables {
    pub const fn new(seed: Seed) -> Self {
        Self {
            seed,
            receivers: BTreeMap::new(),
            readings: BTreeMap::new(),
        }
    }

    /// True if some receiver has errors that counters show.
    #[inline]
    pub fn has_errors(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// Sets the ratios of a port's receiver from `now` on; `None`: those of a good cable. What it has counted stays.
    pub fn set_ratios(&mut self, chassis: &mut Chassis, now: Time, port: PortIdx, ratios: Option<Ratios>) {
        self.settle(chassis, now, port);
        let good = self.good(chassis, port);
        let receiver = self
            .receivers
            .entry(port)
            .or_insert_with(|| Receiver::since_start(chassis, port, good));
        receiver.ratios = ratios.unwrap_or(good);
        receiver.run(chassis, now, port);
    }

    /// Sets what a port's end of its cable measures; `None`: what a good cable has.
    pub fn set_readings(&mut self, port: PortIdx, readings: Option<Readings>) {
        match readings {
            Some(readings) => drop(self.readings.insert(port, readings)),
            None => drop(self.readings.remove(&port)),
        }
    }

    /// The link of a port has come up or gone down at `now`: a receiver counts errors only while it is up.
    pub fn link_changed(&mut self, chassis: &Chassis, now: Time, port: PortIdx) {
        if let Some(receiver) = self.receivers.get_mut(&port) {
            receiver.run(chassis, now, port);
        }
    }

    /// Counts the symbol errors of a port up to `now`, and what PortExtendedSpeedsCounters has of them.
    pub fn settle(&mut self, chassis: &mut Chassis, now: Time, port: PortIdx) {
        if let Some(receiver) = self.receivers.get_mut(&port) {
            let (raw, effective) = (receiver.raw.take(now), receiver.effective.take(now));
            let counter = &mut chassis.counters_mut(port).symbol_errors;
            *counter = counter.saturating_add(effective);
            count_by_lane(chassis, port, raw.saturating_sub(effective), effective);
        }
    }

    /// Forgets the errors of a port up to `now`, because its counters are lost.
    pub fn forget(&mut self, chassis: &Chassis, now: Time, port: PortIdx) {
        let good = self.good(chassis, port);
        let receiver = self
            .receivers
            .entry(port)
            .or_insert_with(|| Receiver::since_start(chassis, port, good));
        receiver.effective.take(now);
        receiver.raw.take(now);
        receiver.lost = (receiver.raw.total(now), receiver.effective.total(now));
    }

    /// Returns the ports of which counters show errors.
    pub fn ports(&self) -> Vec<PortIdx> {
        self.receivers.keys().copied().collect()
    }

    /// Returns what PortBer shows.
    pub fn ber(&self, chassis: &Chassis, now: Time, port: PortIdx) -> PortBer {
        let receiver = match self.receivers.get(&port) {
            Some(receiver) => *receiver,
            None => Receiver::since_start(chassis, port, self.good(chassis, port)),
        };
        PortBer {
            port_select: chassis.wire(port).num().get(),
            raw: receiver.ratios.raw,
            effective: receiver.ratios.effective,
            raw_errors: receiver.raw.total(now).saturating_sub(receiver.lost.0),
            effective_errors: receiver.effective.total(now).saturating_sub(receiver.lost.1),
        }
    }

    /// Returns what CableInfo shows.
    pub fn info(&self, chassis: &Chassis, port: PortIdx) -> CableInfo {
        let wire = chassis.wire(port);
        let port_select = wire.num().get();
        let Some(peer) = wire.peer().filter(|_| wire.is_plugged()) else {
            return CableInfo {
                port_select,
                ..CableInfo::default()
            };
        };
        let ends = [port.min(peer), port.max(peer)];
        let drawn = self.seed.child("cable").nth(ends[0].0.into()).nth(ends[1].0.into()).0;
        let is_optical = ends.iter().all(|end| chassis.is_switch(chassis.wire(*end).node()));
        let at_end = self.seed.child("end").nth(port.0.into()).0;
        let lanes = chassis.port(port).rate.width.lanes();
        let readings = self.readings.get(&port).copied().unwrap_or_default();
        // Up to 3 m of copper, up to 30 m of fibre; 35 to 50 °C; 0.8 to 1.2 mW.
        let length_m = if is_optical { 5 + drawn % 26 } else { 1 + drawn % 3 };
        let (celsius, rx, tx) = match is_optical {
            true => (35 + at_end % 16, 8_000 + at_end % 4_001, 8_000 + (at_end >> 16) % 4_001),
            false => (0, 0, 0),
        };
        let celsius = readings.temperature_c.map_or(celsius as i16, i16::from);
        let rx = readings.rx_power_uw.map_or(rx as u16, |uw| 10 * uw);
        let of_lanes = |power: u16| core::array::from_fn(|lane| if lane < lanes.into() { power } else { 0 });
        CableInfo {
            port_select,
            kind: if is_optical {
                CableKind::ActiveOptical
            } else {
                CableKind::PassiveCopper
            },
            lanes,
            length_dm: 10 * length_m as u16,
            temperature: 256 * celsius,
            supply_voltage: if is_optical { 33_000 } else { 0 },
            vendor: CableInfo::field("Selvedge"),
            part_number: CableInfo::field(&format!(
                "SLV-{}-{length_m:02}M",
                if is_optical { "AOC" } else { "DAC" }
            )),
            serial_number: CableInfo::field(&format!("SLV{:012X}", drawn >> 16)),
            revision: CableInfo::field("A1"),
            rx_power: of_lanes(rx),
            tx_power: of_lanes(tx as u16),
        }
    }

    /// Returns the ratios of a good cable: some errors before correction from HDR on, none after it.
    fn good(&self, chassis: &Chassis, port: PortIdx) -> Ratios {
        let is_corrected = is_corrected(chassis, port) && chassis.wire(port).peer().is_some();
        let drawn = self.seed.child("receiver").nth(port.0.into()).0;
        let raw = Ber {
            mantissa: 10 + (drawn % 90) as u16,
            exponent: 10 + (drawn >> 32) as u8 % 3,
        };
        Ratios {
            raw: if is_corrected { raw } else { Ber::default() },
            effective: Ber::default(),
        }
    }
}

impl Receiver {
    /// Returns a receiver that has had these ratios since time zero.
    fn since_start(chassis: &Chassis, port: PortIdx, ratios: Ratios) -> Self {
        let mut receiver = Self {
            ratios,
            raw: Meter::default(),
            effective: Meter::default(),
            lost: (0, 0),
        };
        receiver.run(chassis, Time::ZERO, port);
        receiver
    }

    /// Counts at these ratios from `now` on, if the link is up.
    fn run(&mut self, chassis: &Chassis, now: Time, port: PortIdx) {
        let is_up = chassis.wire(port).phys() == PhysState::LinkUp;
        let rate = chassis.port(port).rate;
        let errors = |ber: Ber| if is_up { errors(rate, ber) } else { 0 };
        self.raw.set_rate(now, errors(self.ratios.raw));
        self.effective.set_rate(now, errors(self.ratios.effective));
    }
}

/// True if the link of a port corrects errors.
fn is_corrected(chassis: &Chassis, port: PortIdx) -> bool {
    chassis.port(port).rate.speed >= LinkSpeed::Hdr
}

/// Counts errors in PortExtendedSpeedsCounters, divided among the lanes: blocks that error correction mended and could
/// not mend, each with one error; without error correction the errors that lanes detect. Links with 8b/10b coding, up
/// to QDR, have none of these counters.
fn count_by_lane(chassis: &mut Chassis, port: PortIdx, mended: u64, left: u64) {
    let rate = chassis.port(port).rate;
    let counted = match is_corrected(chassis, port) {
        true => [
            (DetailRow::FecCorrectable, 0, mended),
            (DetailRow::FecUncorrectable, 0, left),
        ],
        false if rate.speed >= LinkSpeed::Fdr10 => {
            [(DetailRow::LaneErrors, 2, left), (DetailRow::LaneErrors, 2, mended)]
        }
        false => return,
    };
    let lanes = usize::from(rate.width.lanes()).clamp(1, PortExtSpeedsCounters::LANES);
    for (row, first, count) in counted.into_iter().filter(|(_, _, count)| *count > 0) {
        let counters = &mut chassis.detail_mut(port, row)[first..first + lanes];
        let before: u128 = counters.iter().map(|count| u128::from(*count)).sum();
        for (lane, counter) in counters.iter_mut().enumerate() {
            // Errors go to the lanes in turn, so what a lane counts does not depend on when it was read.
            let share = |total: u128| (total + (lanes - 1 - lane) as u128) / lanes as u128;
            let grown = share(before + u128::from(count)) - share(before);
            *counter = counter.saturating_add(u64::try_from(grown).unwrap_or(u64::MAX));
        }
    }
}

/// Returns the bits in error in a million seconds.
fn errors(rate: Rate, ber: Ber) -> u64 {
    let bits = u128::from(rate.mbit_per_s()) * 1_000_000_000_000;
    match 10_u128.checked_pow(ber.exponent.into()) {
        Some(power) => u64::try_from(bits * u128::from(ber.mantissa) / power).unwrap_or(u64::MAX),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::Fault;

    #[test]
    fn cables_are_read_and_printed() {
        let check = |text: &str, printed: &str| {
            let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fault.to_string(), printed);
            assert_eq!(printed.parse::<Fault>().unwrap(), fault, "{printed}");
        };
        check("ber S[3] 2e-5", "ber \"S\"[3] 2e-5 0");
        check("ber S[3] 2e-5 1.5E-12", "ber \"S\"[3] 2e-5 15e-13");
        check("ber S[3] off", "ber \"S\"[3] off");
        check(
            "cable S[3] rx-power=120 temperature=-3",
            "cable \"S\"[3] temperature=-3 rx-power=120",
        );
        check("cable S[3] temperature=71", "cable \"S\"[3] temperature=71");
        check("cable S[3] off", "cable \"S\"[3] off");
        let refused = |text: &str, want: &str| {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        refused("ber S[3] 5", "cannot read '5': want RATIO [RATIO]");
        refused("ber S[3]", "before and after error correction");
        refused("cable S[3]", "temperature=C");
        refused("cable S[3] temperature=200", "cannot read 'temperature=200'");
        refused("cable S[3] rx-power=7000", "up to 6553");
        refused("cable S[3] power=7", "cannot read 'power=7'");
    }
}
