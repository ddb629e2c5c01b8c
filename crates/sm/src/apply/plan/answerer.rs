//! Checks whether the answer to a Set of PortInfo comes from the intended port.

use selvedge_types::PortNum;
use selvedge_wire::PortInfo;

/// True if an answer comes from another port than the one that the sweep found at this place. Only values that never
/// change at a port are compared. If they differ, a cable was moved, and the Set reached the node that is now at the
/// end of the directed route. For a host's port (`of_host`) the port number is compared too, because the agent of a
/// host answers with the number of the port that was asked; a switch answers with the number of the ingress port.
///
/// Another port with the same values is not detected here: `lid_book` compares the LIDs that the ports held before.
pub(super) fn is_anothers(seen: &PortInfo, answer: &PortInfo, of_host: Option<PortNum>) -> bool {
    let constant = |info: &PortInfo| (info.mtu_cap, info.vl_cap, info.guid_cap);
    let is_its = |port: PortNum| [port.get(), seen.local_port].contains(&answer.local_port);
    constant(seen) != constant(answer) || of_host.is_some_and(|port| !is_its(port))
}

#[cfg(test)]
mod tests {
    use selvedge_types::Lid;

    use super::*;

    #[test]
    fn a_port_is_known_by_what_never_changes() {
        let seen = PortInfo {
            local_port: 1,
            guid_cap: 8,
            ..PortInfo::default()
        };
        let host = PortNum::new(1);
        let check = |answer: PortInfo, of_host: Option<PortNum>, want: bool| {
            assert_eq!(is_anothers(&seen, &answer, of_host), want, "{answer:?}");
        };
        let taken = PortInfo { lid: Lid(7), ..seen };
        check(taken, host, false);
        check(taken, None, false);
        // A switch was asked through port 6; it has no GUIDs for ports other than 0.
        let entered = PortInfo { local_port: 6, ..seen };
        check(entered, host, true);
        check(entered, None, false);
        check(PortInfo { guid_cap: 0, ..seen }, host, true);
        check(PortInfo { guid_cap: 0, ..seen }, None, true);
        // The sweep read port 2 through port 1, as the link of port 2 was down.
        check(seen, PortNum::new(2), false);
    }
}
