//! Counters of a packet simulation in the ports of an emulated fabric.

use selvedge_chassis::Counters;
use selvedge_dataplane::PortCounters;
use selvedge_emulator::Emulator;
use selvedge_fabric::PortRef;

use crate::RehearsalError;

/// Adds what ports counted in a packet simulation (`Simulation::port_counters`) to the counters of the same fabric's
/// emulated ports, so that agents show it. The simulation has unicast packets only. Its waiting times are converted to
/// ticks of PortXmitWait, which depend on the rate of the link.
///
/// A port that the emulated fabric does not have is refused; the ports before it in the list have counted.
pub fn count_simulated(emulator: &mut Emulator, counts: &[(PortRef, PortCounters)]) -> Result<(), RehearsalError> {
    for (port, found) in counts {
        let more = Counters {
            xmit_data: found.xmit_data,
            rcv_data: found.rcv_data,
            xmit_packets: found.xmit_packets,
            rcv_packets: found.rcv_packets,
            unicast_xmit_packets: found.xmit_packets,
            unicast_rcv_packets: found.rcv_packets,
            xmit_wait: emulator.wait_ticks(*port, found.xmit_wait_ns),
            xmit_discards: found.xmit_discards,
            rcv_switch_relay_errors: found.rcv_switch_relay_errors,
            link_downed: found.link_downed,
            ..Counters::default()
        };
        emulator.count(*port, &more)?;
    }
    Ok(())
}
