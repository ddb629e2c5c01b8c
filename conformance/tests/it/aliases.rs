//! Alias GUIDs on the wire: a host sets one as `mlx4_core` does for a virtual function; infiniband-diags see it in the
//! port and in the administrator's answers, after a kill, a reboot of the host, and until it is deleted.

use crate::support::{LIMIT, emulate, fault, lid_of, port};
use selvedge_conformance::{HeavyLock, PeerLab, Probe, until};
use selvedge_wire::sa::records::{self, guid_info, path};
use selvedge_wire::sa::{Field, SaStatus};
use selvedge_wire::{Class, Mad, Method, Status};

/// Ports have room for two and a half blocks of alias GUIDs.
const SPEC: &str = "pgft:m=2x4,w=1x2,p=1x1,guidcap=20";
const SEAT: &str = "H-0";
/// The host with virtual functions.
const HOST: &str = "H-5";
/// The host at which the diagnostics run.
const OBSERVER: &str = "H-3";
const ALIAS: u64 = 0x0002_C903_00AA_BB01;

#[test]
fn a_virtual_function_gets_its_guid() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, SPEC);
    let state = lab.folder().join("state");
    let start = || {
        let at = port(lab.base(), SEAT);
        let arguments = ["run", "--port", &at, "--state", state.to_str().unwrap()];
        lab.start_daemon(&arguments).unwrap()
    };
    let ours = start();
    until("the manager to give LIDs", LIMIT, String::new, || {
        Ok([SEAT, HOST, OBSERVER]
            .iter()
            .all(|node| lid_of(&lab, node) != 0)
            .then_some(()))
    })
    .unwrap();
    let (sa, lid) = (lid_of(&lab, SEAT), lid_of(&lab, HOST));
    let mut host = Probe::open(lab.base(), HOST).unwrap();
    let mut stranger = Probe::open(lab.base(), OBSERVER).unwrap();
    let set = guids(Method::Set, lid, &[(guid_info::GUID1, ALIAS), (guid_info::GUID2, 0)]);

    let status = |probe: &mut Probe, mad: Mad| probe.administration(sa, mad).unwrap().map(|mad| mad.status());
    assert_eq!(status(&mut stranger, set), Some(SaStatus::DENIED), "it is not its port");
    let told = administration(&mut host, sa, set);
    assert_eq!(guid_info::GUID1.get(told.sa_data()), ALIAS);
    let given = guid_info::GUID2.get(told.sa_data());
    assert_eq!(given >> 32, 0x0014_0500, "one is given out");
    wait_held(&lab, lid, &[(ALIAS, true), (given, true)]);
    let records = lab.output(OBSERVER, "saquery", &["GIR", &lid.to_string()]).unwrap();
    assert!(
        records.contains(&hex(ALIAS)) && records.contains(&hex(given)),
        "{records}"
    );
    assert_eq!(path_to(&mut stranger, sa, ALIAS), lid);

    // Its agent has lost it; the manager has not.
    fault(&lab, &format!("reboot \"{HOST}\""));
    until("the rebooted host", LIMIT, String::new, || {
        Ok((lid_of(&lab, HOST) == lid).then_some(()))
    })
    .unwrap();
    wait_held(&lab, lid, &[(ALIAS, true), (given, true)]);

    // Stored registrations outlive the manager; hosts with registrations that were not stored yet are asked.
    let mark = state.join("registrations.stored");
    until("the store", LIMIT, String::new, || Ok(mark.exists().then_some(()))).unwrap();
    drop(ours); // SIGKILL
    let _ours = start();
    assert_eq!(path_to(&mut stranger, sa, ALIAS), lid);
    let delete = guids(Method::Delete, lid, &[(guid_info::GUID1, 0)]);
    administration(&mut host, sa, delete);
    wait_held(&lab, lid, &[(ALIAS, false), (given, true)]);
}

/// Makes a request for the GUIDInfoRecord of the first block of a port, with these entries as components.
fn guids(method: Method, lid: u16, entries: &[(Field, u64)]) -> Mad {
    let mut mad = Mad::request(Class::SubnAdm, method, records::GUID_INFO.id, 0);
    let named = [(guid_info::LID, u64::from(lid)), (guid_info::BLOCK, 0)];
    let mut mask = 0;
    for &(field, value) in named.iter().chain(entries) {
        mask |= field.mask();
        field.set(mad.sa_data_mut(), value);
    }
    mad.set_component_mask(mask);
    mad
}

/// Repeats a request to the administrator until the status of the answer is good: a manager that has just been started
/// does not answer yet.
fn administration(probe: &mut Probe, sa: u16, mad: Mad) -> Mad {
    let last = std::cell::Cell::new(None);
    let said = || format!("{:?}", last.get());
    until("the administrator's answer", LIMIT, said, || {
        let told = probe.administration(sa, mad)?;
        last.set(told.map(|mad| mad.status()));
        Ok(told.filter(|mad| mad.status() == Status::OK))
    })
    .unwrap()
}

/// Returns the destination LID of a path to the port with a GUID.
fn path_to(probe: &mut Probe, sa: u16, guid: u64) -> u16 {
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
    let gid = 0xFE80_u128 << 112 | u128::from(guid);
    path::DGID.put(mad.sa_data_mut(), &gid.to_be_bytes());
    path::SLID.set(mad.sa_data_mut(), u64::from(sa));
    path::NUMB_PATH.set(mad.sa_data_mut(), 1);
    mad.set_component_mask(path::DGID.mask() | path::SLID.mask() | path::NUMB_PATH.mask());
    let told = administration(probe, sa, mad);
    assert_eq!(
        path::DGID.slice(told.sa_data()),
        gid.to_be_bytes(),
        "by the GID that was asked for"
    );
    u16::try_from(path::DLID.get(told.sa_data())).unwrap()
}

/// Waits until `smpquery` shows that the agent of a port has each of these GUIDs (true) or not (false).
fn wait_held(lab: &PeerLab, lid: u16, want: &[(u64, bool)]) {
    let last = std::cell::RefCell::new(String::new());
    until(
        "the port's GUIDs",
        LIMIT,
        || last.borrow().clone(),
        || {
            let said = lab.run(OBSERVER, "smpquery", &["GI", &lid.to_string()])?.stdout;
            let is_so = want.iter().all(|&(guid, is_held)| said.contains(&hex(guid)) == is_held);
            last.replace(said);
            Ok(is_so.then_some(()))
        },
    )
    .unwrap();
}

fn hex(guid: u64) -> String {
    format!("{guid:016x}")
}
