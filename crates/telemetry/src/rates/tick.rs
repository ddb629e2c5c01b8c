//! Shares of time from ticks of PortXmitWait.

use core::time::Duration;

use selvedge_fabric::WaitTick;

use crate::rates::Capacity;

impl Capacity {
    /// Returns the length of a tick at the link in picoseconds.
    #[must_use]
    pub fn tick_ps(self, tick: WaitTick) -> f64 {
        let per_byte = 1e12 / self.bytes_per_s as f64;
        match tick {
            WaitTick::Fixed { ps } => ps as f64,
            // The others have a number of bytes.
            tick => tick.port_bytes(self.lanes).unwrap_or_default() as f64 * per_byte,
        }
    }

    /// Returns the share of an interval that this many ticks are, 0 to 1.
    #[must_use]
    pub fn wait_share(self, tick: WaitTick, ticks: u64, over: Duration) -> f64 {
        let share = ticks as f64 * self.tick_ps(tick) / (over.as_secs_f64() * 1e12);
        share.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::{LinkSpeed, LinkWidth, Rate};

    use super::*;

    fn capacity(width: LinkWidth, speed: LinkSpeed) -> Capacity {
        Capacity::of(Rate { width, speed }).expect("a known speed")
    }

    #[test]
    fn a_symbol_is_4_ns_at_sdr_whatever_the_width() {
        for width in LinkWidth::ALL {
            assert_eq!(capacity(width, LinkSpeed::Sdr).tick_ps(WaitTick::of_code(0)), 4_000.0);
        }
        let qdr = capacity(LinkWidth::X4, LinkSpeed::Qdr);
        assert_eq!(qdr.tick_ps(WaitTick::of_code(7)), 8_000.0);
        assert_eq!(qdr.tick_ps(WaitTick::Fixed { ps: 7 }), 7.0);
        // At 4x HDR, 8 bytes of 25 GB/s; at 4x EDR, 32 bytes of a lane of 3.125 GB/s.
        let ticks = [
            (LinkSpeed::Hdr, WaitTick::PortBytes(8), 320.0),
            (LinkSpeed::Edr, WaitTick::Symbols(32), 10_240.0),
        ];
        for (speed, tick, ps) in ticks {
            assert_eq!(capacity(LinkWidth::X4, speed).tick_ps(tick), ps);
        }
    }

    #[test]
    fn a_share_is_at_most_1() {
        let hdr = capacity(LinkWidth::X4, LinkSpeed::Hdr);
        let share = |ticks| hdr.wait_share(WaitTick::PortBytes(8), ticks, Duration::from_secs(1));
        assert!((share(1_562_500_000) - 0.5).abs() < 1e-12);
        assert_eq!((share(0), share(u64::MAX)), (0.0, 1.0));
    }
}
