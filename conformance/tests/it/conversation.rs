//! The datagrams between hosts and the administrator are in the record of a manager (`run --record`), for people:
//! `selvedge decode --file` prints them, and `selvedge replay` skips them.

use crate::support::{LIMIT, emulate, lid_of, port};
use selvedge_conformance::{HeavyLock, PeerLab, until};

const SPEC: &str = "mport:m=4,n=2";
/// The host of the manager.
const MASTER: &str = "H-0";
/// The host that sends the queries.
const CLIENT: &str = "H-5";

/// Finds the line of a request or an answer with all these words. Returns its transaction.
fn transaction(lines: &str, has: &[&str]) -> Option<String> {
    let line = lines.lines().find(|line| has.iter().all(|part| line.contains(part)))?;
    let tid = line.split_whitespace().find(|word| word.starts_with("tid="));
    tid.map(str::to_owned)
}

#[test]
fn what_hosts_ask_and_are_told_is_printed_from_a_record() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _simulator = emulate(&lab, SPEC);
    let record = lab.folder().join("record").to_string_lossy().into_owned();
    let manager = lab
        .start_daemon(&["run", "--port", &port(lab.base(), MASTER), "--record", &record])
        .unwrap();
    let answers = || {
        let asked = lab.run(CLIENT, "saquery", &["SMIR"])?;
        Ok((asked.status.success() && asked.stdout.contains("SMInfoRecord")).then_some(()))
    };
    until("the administrator to answer", LIMIT, String::new, answers).unwrap();
    let [master, client] = [MASTER, CLIENT].map(|node| lid_of(&lab, node));
    let asked = |arguments: &[&str]| lab.run(CLIENT, "saquery", arguments).unwrap();
    let path = asked(&["--src-to-dst", &format!("{client}:{master}")]);
    assert!(path.stdout.contains("PathRecord dump"), "{}", path.stdout);
    // Refused: mistakes of hosts are what people search for in a record.
    let wrong = asked(&["--smkey", "7", "NR", "1"]);
    assert!(format!("{}{}", wrong.stdout, wrong.stderr).contains("0x0700"));
    manager.signal("TERM").unwrap();
    manager.finish(LIMIT).unwrap();

    let decoded = lab.selvedge(&["decode", "--file", &record]).unwrap().success().unwrap();
    let (from, to) = (
        format!("administrator: from lid={client} "),
        format!("administrator: to lid={client} "),
    );
    let check = |attribute: &str, what: &str| {
        let question = transaction(&decoded, &[&format!("{from}SubnAdmGetTable {attribute} ")])
            .unwrap_or_else(|| panic!("no question for {attribute} of LID {client} in\n{decoded}"));
        let answer = format!("{to}SubnAdmGetTableResp {attribute} {question} ");
        let told = transaction(&decoded, &[&answer, what]);
        assert!(told.is_some(), "{question} has no answer with {what} in\n{decoded}");
    };
    check("PathRecord", &format!("DLID={master} SLID={client} "));
    check("NodeRecord", "status=0x0700");
    // The manager's own are there as well.
    assert!(decoded.contains(" received lid="), "{decoded}");
    let json = lab.selvedge(&["decode", "--json", "--file", &record]).unwrap();
    assert!(json.success().unwrap().contains(&from));

    let replayed = lab.selvedge(&["replay", &record]).unwrap().success().unwrap();
    assert!(replayed.contains("every output is the same"), "{replayed}");
}
