//! Tests what an operator gets when something is wrong: verdict, conditions, exit codes, events, status in systemd.

use std::os::unix::net::UnixDatagram;

use serde_json::Value;

use crate::support::{Lab, PATIENCE, Process, wait_for};

const TREE: [&str; 6] = ["run", "--fabric", "mport:m=4,n=2", "--sweep-interval", "1", "--seed=1"];

fn daemon(lab: &Lab, more: &[&str]) -> Process {
    let process = lab.start(&[&TREE, more].concat());
    wait_for("verdict", || {
        let code = lab.run(&["health"]).code;
        (code != 3).then_some(())
    });
    process
}

/// Waits until the verdict and the kinds of conditions, each once, are these.
#[track_caller]
fn wait_for_health(lab: &Lab, verdict: &str, kinds: &[&str]) -> Value {
    wait_for(verdict, || {
        let ran = lab.run(&["health", "--json"]);
        // A manager that starts does not listen yet.
        let health = (!ran.out.is_empty()).then(|| ran.json())?;
        let mut found: Vec<&str> = conditions(&health).map(|of| of["kind"].as_str().unwrap()).collect();
        found.sort_unstable();
        found.dedup();
        (health["verdict"] == verdict && found == kinds).then(|| health.clone())
    })
}

fn conditions(health: &Value) -> impl Iterator<Item = &Value> {
    health["conditions"].as_array().unwrap().iter()
}

/// Events of a code, as severity and text.
fn events(lab: &Lab, code: &str) -> Vec<(String, String)> {
    let all = lab.run(&["status", "events", "--json"]).exits(0).json();
    let of_code = all["events"].as_array().unwrap().iter().filter(|of| of["code"] == code);
    let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
    of_code.map(|of| (text(of, "severity"), text(of, "text"))).collect()
}

#[test]
fn a_leaf_that_is_cut_off_is_missing_until_it_returns_or_is_forgotten() {
    let lab = Lab::new("cut-leaf");
    let process = daemon(&lab, &["--state", "state"]);
    lab.run(&["status"]).exits(0).says("healthy");
    lab.run(&["health"]).exits(0).says("SELVEDGE OK - healthy");
    for port in ["S-L1-1[3]", "S-L1-1[4]"] {
        lab.run(&["fault", "cut", port]).exits(0);
    }
    let health = wait_for_health(&lab, "degraded", &["node_missing"]);
    assert_eq!(conditions(&health).count(), 3, "{health}");
    let status = lab.run(&["status"]).exits(1);
    let status = status
        .says("degraded: ")
        .says("2 hosts missing")
        .says("1 switch missing");
    let status = status
        .says("switch \"S-L1-1\": missing, since ")
        .says("it was cabled to");
    status
        .says("host \"H-2\": missing")
        .says("cleared when: the node returns, or 'selvedge forget NAME'");
    lab.run(&["health"]).exits(1).says("SELVEDGE WARNING - degraded: ");
    lab.run(&["status", "conditions", "--csv"])
        .exits(1)
        .says("SLV-HEALTH-0001");
    let began = events(&lab, "SLV-DAEMON-0140");
    // The first cut alone leaves a link missing, until the second one leaves its switch missing.
    let of_nodes = began.iter().filter(|(_, text)| !text.starts_with("link "));
    assert_eq!(of_nodes.count(), 3, "{began:?}");
    assert!(began.iter().all(|(severity, _)| severity == "warning"), "{began:?}");

    // What is there is never forgotten, nor what never was.
    lab.run(&["forget", "H-0"])
        .exits(2)
        .complains("SLV-API-0010")
        .complains("is there");
    lab.run(&["forget", "nobody"]).exits(2).complains("SLV-API-0010");
    assert_eq!(conditions(&lab.run(&["health", "--json"]).json()).count(), 3);

    // It survives a restart.
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
    let whole = lab.read("state/known-fabric.txt");
    assert!(whole.contains("\"S-L1-1\"") || whole.contains(" S-L1-1"), "{whole}");
    let process = daemon(&lab, &["--state", "state"]);
    // The emulated fabric is whole again: all of it has returned.
    wait_for_health(&lab, "healthy", &[]);
    lab.run(&["fault", "kill", "H-3"]).exits(0);
    wait_for_health(&lab, "degraded", &["node_missing"]);
    lab.run(&["forget", "\"H-3\""]).exits(0).says("forgotten: host \"H-3\"");
    wait_for_health(&lab, "healthy", &[]);
    let cleared = events(&lab, "SLV-DAEMON-0141");
    let want = ("info".to_owned(), "cleared: host \"H-3\": missing".to_owned());
    assert!(cleared.contains(&want), "{cleared:?}");
    drop(process);
}

#[test]
fn a_hung_switch_is_silent_and_not_missing() {
    let lab = Lab::new("hung-switch");
    let _process = daemon(&lab, &[]);
    lab.run(&["fault", "hang", "S-L2-1"]).exits(0);
    let health = wait_for_health(&lab, "degraded", &["agent_silent"]);
    let silent: Vec<&Value> = conditions(&health).collect();
    assert_eq!(silent.len(), 1, "{health}");
    assert_eq!(silent[0]["where"]["node"]["name"], "S-L2-1");
    lab.run(&["status"]).exits(1).says("1 switch agent does not answer");
    // The ports that lead to it.
    let ports = lab.run(&["status", "ports"]).exits(0);
    assert_eq!(ports.out.matches("SLV-PORTSTATE-0004").count(), 4, "{}", ports.out);
    lab.run(&["fault", "unhang", "S-L2-1"]).exits(0);
    wait_for_health(&lab, "healthy", &[]);
}

#[test]
fn what_is_expected_is_compared() {
    let lab = Lab::new("expected");
    let process = daemon(&lab, &["--expected", "mport:m=4,n=2"]);
    wait_for_health(&lab, "healthy", &[]);
    drop(process);
    // Names are no deviations.
    let listing = lab.run(&["topology", "generate", "mport:m=4,n=2"]).exits(0).out;
    let less = lab.write("less.net", &listing.replace("H-7", "H-9"));
    let process = daemon(&lab, &["--expected", &less]);
    wait_for_health(&lab, "healthy", &[]);
    drop(process);
    let foreign = lab
        .run(&["topology", "generate", "random:switches=3,degree=2,hosts=1,seed=9"])
        .exits(0)
        .out;
    let foreign = lab.write("foreign.net", &foreign.replace("0x", "0x7"));
    let process = daemon(&lab, &["--expected", &foreign]);
    wait_for_health(&lab, "degraded", &["other_topology"]);
    lab.run(&["status"])
        .exits(1)
        .says("expected topology is of another fabric");
    drop(process);
    // The same by the configuration; a flag overrules it.
    lab.write("fm.toml", "[fabric]\nexpected = \"foreign.net\"\n");
    let process = daemon(&lab, &["--config", "fm.toml"]);
    wait_for_health(&lab, "degraded", &["other_topology"]);
    drop(process);
    let process = daemon(&lab, &["--config", "fm.toml", "--expected", "mport:m=4,n=2"]);
    wait_for_health(&lab, "healthy", &[]);
    drop(process);
    let check = |args: &[&str]| lab.run(&[&TREE, args, &["--check-config"]].concat());
    check(&["--config", "fm.toml"]).exits(0);
    lab.write("foreign.net", "nonsense");
    let error = "fm.toml, line 2: fabric.expected: SLV-TOPOLOGY-";
    check(&["--config", "fm.toml"]).exits(2).says(error);
    check(&["--expected", "foreign.net"])
        .exits(2)
        .says("foreign.net: no node in it");
    check(&["--config", "fm.toml", "--expected", "mport:m=4,n=2"]).exits(0);
}

#[test]
fn a_fabric_is_approved_while_the_manager_runs() {
    let lab = Lab::new("approve");
    let tree = lab.run(&["topology", "generate", "mport:m=4,n=2"]).exits(0).out;
    lab.write("tree.net", &tree);
    let _process = daemon(&lab, &["--expected", "tree.net"]);
    wait_for_health(&lab, "healthy", &[]);
    // An operator takes a host and a link out for good.
    lab.run(&["fault", "cut", "S-L1-1[3]"]).exits(0);
    lab.run(&["fault", "kill", "H-7"]).exits(0);
    wait_for_health(&lab, "degraded", &["link_missing", "node_missing"]);
    lab.run(&["forget", "H-7"]).exits(0);
    lab.run(&["forget", "S-L1-1[3]"]).exits(0);
    // What is lost and forgotten is no part of the fabric any more.
    wait_for_health(&lab, "degraded", &["expected_missing"]);

    // A dry run writes nothing.
    let dry = lab.run(&["topology", "approve", "tree.net", "--dry-run"]).exits(0);
    dry.says("- node ")
        .says("\"H-7\"")
        .says("- link ")
        .says("would approve: 6 switches, 7 hosts, 14 links in tree.net; 3 differences from the file before");
    assert_eq!(lab.read("tree.net"), tree);

    let approved = lab.run(&["topology", "approve", "tree.net", "--json"]).exits(0).json();
    assert_eq!(approved["schema"], "selvedge.approval");
    assert_eq!(
        (&approved["written"], &approved["is_new"]),
        (&true.into(), &false.into())
    );
    assert_eq!(approved["changes"].as_array().map(Vec::len), Some(3), "{approved}");
    wait_for_health(&lab, "healthy", &[]);
    let same = lab.run(&["topology", "approve", "tree.net"]).exits(0);
    same.says("approved: 6 switches, 7 hosts, 14 links in tree.net; nothing differs from the file before");

    // What was approved is what is reported from now on.
    lab.run(&["fault", "revive", "H-7"]).exits(0);
    wait_for_health(&lab, "degraded", &["additional"]);

    // A file that is no topology, or one of another fabric, is never replaced.
    lab.write("tree.net", "nonsense");
    lab.run(&["sweep"]).exits(0);
    wait_for_health(&lab, "degraded", &["additional", "expected_unread"]);
    lab.run(&["topology", "approve", "tree.net"])
        .exits(2)
        .complains("SLV-TOPOLOGY-");
    assert_eq!(lab.read("tree.net"), "nonsense");
    let foreign = tree.replace("0x", "0x7");
    lab.write("foreign.net", &foreign);
    let refused = lab.run(&["topology", "approve", "foreign.net"]).exits(2);
    refused.complains("SLV-CLI-0060").complains("of another fabric");
    assert_eq!(lab.read("foreign.net"), foreign);
    let new = lab.run(&["topology", "approve", "new.topo"]).exits(0);
    new.says("approved: 6 switches, 8 hosts, 15 links in new.topo; there was no such file before");
}

#[test]
fn watching_a_fabric_that_nobody_manages_says_so() {
    let lab = Lab::new("unmanaged");
    let ran = lab.run(&["watch", "--fabric", "mport:m=4,n=2", "--once"]).exits(1);
    ran.says("unmanaged: no manager has set this fabric up");
}

#[test]
fn a_port_without_a_link_claims_nothing_else() {
    let lab = Lab::new("no-link");
    let _process = daemon(&lab, &["--at", "H-0"]);
    lab.run(&["status"]).exits(0).says("judged");
    lab.run(&["fault", "cut", "S-L1-0[1]"]).exits(0);
    let health = wait_for_health(&lab, "failed", &["own_port_down"]);
    assert_eq!(health["nagios_code"], 2);
    let status = lab.run(&["status"]).exits(1).says("failed: own port is down");
    let claims = ["judged", "rebalance", "missing"];
    let found: Vec<&&str> = claims.iter().filter(|word| status.out.contains(**word)).collect();
    assert!(found.is_empty(), "{found:?} in {}", status.out);
    lab.run(&["health"]).exits(2).says("SELVEDGE CRITICAL - failed");
}

#[test]
fn a_standby_is_ready_and_names_its_master() {
    let lab = Lab::new("standby");
    let base = format!("selvedge-standby-{}", std::process::id());
    let _master = daemon(&lab, &["--at", "H-0", "--serve", &base, "--priority", "1"]);
    let port = format!("ibsim:{base}/H-3");
    let socket = ["--socket", "standby"];
    let _standby = lab.start(&[&["run", "--port", &port, "--sweep-interval", "1"], &socket[..]].concat());
    let ask = |words: &[&str]| lab.run(&[words, &socket[..]].concat());
    wait_for("standby", || (ask(&["health"]).code == 0).then_some(()));
    ask(&["health"]).exits(0).says("SELVEDGE OK - standby ready");
    let status = ask(&["status"]).exits(0).says("standby ready").says("\"H-0\"[1]");
    let claims = ["judged", "degraded", "failed"];
    let found: Vec<&&str> = claims.iter().filter(|word| status.out.contains(**word)).collect();
    assert!(found.is_empty(), "{found:?} in {}", status.out);
    // What is wrong with the fabric is its master's to say.
    lab.run(&["fault", "kill", "H-5"]).exits(0);
    wait_for_health(&lab, "degraded", &["node_missing"]);
    ask(&["status"]).exits(0).says("standby ready");
}

#[test]
fn a_standby_that_ends_is_missed_until_it_is_forgotten() {
    let lab = Lab::new("standby-gone");
    let base = format!("selvedge-standby-gone-{}", std::process::id());
    let _master = daemon(&lab, &["--at", "H-0", "--serve", &base, "--priority", "9"]);
    let port = format!("ibsim:{base}/H-3");
    let stand_by = || {
        let socket = ["--socket", "standby"];
        let standby = lab.start(&[&["run", "--port", &port, "--priority", "1"], &socket[..]].concat());
        let is_ready = || (lab.run(&[&["health"], &socket[..]].concat()).code == 0).then_some(());
        wait_for("standby", is_ready);
        standby
    };
    let standby = stand_by();
    wait_for_health(&lab, "healthy", &[]);
    // Each light sweep of the master asks it, and seven nodes more.
    let gets = || lab.run(&["status", "--json"]).json()["mads"]["gets"].as_u64().unwrap();
    let is_asked = || {
        let before = gets();
        wait_for("two light sweeps", || (gets() > before + 16).then_some(()));
        wait_for_health(&lab, "healthy", &[]);
    };
    is_asked();
    standby.signal("TERM");
    assert_eq!(standby.exit_code(), Some(0));
    let health = wait_for_health(&lab, "degraded", &["standby_gone"]);
    let gone = conditions(&health).next().unwrap();
    assert_eq!(gone["text"], "manager at \"H-3\"[1]: gone (it stood by)");
    assert!(gone["evidence"].as_str().unwrap().contains("port GUID 0x"), "{gone}");
    // It returns.
    let standby = stand_by();
    is_asked();
    drop(standby);
    wait_for_health(&lab, "degraded", &["standby_gone"]);
    lab.run(&["forget", "H-3"])
        .exits(0)
        .says("forgotten: manager at \"H-3\"[1]");
    wait_for_health(&lab, "healthy", &[]);
}

#[test]
fn is_sm_that_a_driver_cleared_is_set_again() {
    let lab = Lab::new("is-sm");
    let _process = daemon(&lab, &["--at", "H-0"]);
    wait_for_health(&lab, "healthy", &[]);
    lab.run(&["fault", "clear-is-sm", "H-0"]).exits(0);
    wait_for("IsSM", || (!events(&lab, "SLV-DAEMON-0141").is_empty()).then_some(()));
    let text = "this manager: IsSM is cleared at its port";
    let (began, cleared) = (events(&lab, "SLV-DAEMON-0140"), events(&lab, "SLV-DAEMON-0141"));
    assert!(
        began
            .iter()
            .any(|(severity, of)| severity == "warning" && of.starts_with(text)),
        "{began:?}"
    );
    assert!(
        cleared.iter().any(|(_, of)| *of == format!("cleared: {text}")),
        "{cleared:?}"
    );
    // The trap about it is no reason for a sweep.
    let sweeps = events(&lab, "SLV-SM-0001");
    assert_eq!(sweeps.len(), 1, "{sweeps:?}");
    wait_for_health(&lab, "healthy", &[]);
}

#[test]
fn a_refused_plan_leaves_its_findings() {
    let lab = Lab::new("refused");
    let _process = lab.start(&["run", "--fabric", "ring:switches=5,hosts=1", "-R", "minhop"]);
    wait_for_health(&lab, "failed", &["plan_refused"]);
    lab.run(&["status"])
        .exits(1)
        .says("failed: no plan accepted")
        .says("nothing is sent, switches keep the tables that they have")
        .says("cleared when: a plan is accepted");
    let findings = lab.run(&["status", "findings"]).exits(1);
    findings.says("of the plan that is refused since ").says("SLV-JUDGE-");
    let findings = lab.run(&["status", "findings", "--json"]).exits(1).json();
    assert!(
        findings["findings"].as_array().is_some_and(|all| !all.is_empty()),
        "{findings}"
    );
    assert!(findings["refused"]["since_ms"].as_u64() > Some(0), "{findings}");
    let health = lab.run(&["health"]).exits(2);
    health.says("SELVEDGE CRITICAL - failed: no plan accepted");
}

#[test]
fn a_manager_outlives_its_emulator_and_manages_the_next_one() {
    let lab = Lab::new("reattach");
    let base = format!("selvedge-reattach-{}", std::process::id());
    let emulate = || {
        let args = [
            "emulate",
            "--fabric",
            "mport:m=4,n=2",
            "--serve",
            &base,
            "--socket",
            "emulator",
        ];
        let emulator = lab.start(&args);
        wait_for("emulator", || {
            let asked = lab.run(&["status", "fabric", "--socket", "emulator"]);
            (asked.code == 0).then_some(())
        });
        emulator
    };
    let emulator = emulate();
    let port = format!("ibsim:{base}");
    let process = lab.start(&["run", "--port", &port, "--sweep-interval", "1"]);
    wait_for_health(&lab, "healthy", &[]);
    emulator.signal("KILL");
    drop(emulator);
    let health = wait_for_health(&lab, "failed", &["own_port_down"]);
    assert_eq!(health["nagios_code"], 2);
    lab.run(&["status"])
        .exits(1)
        .says("failed: own port is down")
        .says("the server has ended");
    // Another fabric of the same shape, in which nothing is set up.
    let _emulator = emulate();
    wait_for_health(&lab, "healthy", &[]);
    wait_for("all links", || {
        let fabric = lab.run(&["status", "fabric", "--json"]).exits(0).json();
        (fabric["links_active"] == 16).then_some(())
    });
    // IsSM is set again: a second manager finds this one, and stands by.
    let port = format!("ibsim:{base}/H-3");
    let _second = lab.start(&["run", "--port", &port, "--priority", "0", "--socket", "second"]);
    wait_for("standby", || {
        let health = lab.run(&["health", "--socket", "second", "--json"]);
        let is_ready = !health.out.is_empty() && health.json()["verdict"] == "standby_ready";
        is_ready.then_some(())
    });
    process.signal("TERM");
    assert_eq!(process.exit_code(), Some(0));
}

/// A socket in place of systemd's.
struct Listener(UnixDatagram);

impl Listener {
    /// Waits for a datagram that begins so.
    fn wait_for(&self, begin: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length = self
                .0
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("no {begin}: {error}"));
            let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
            if text.starts_with(begin) {
                return text;
            }
        }
    }
}

#[test]
fn systemd_hears_of_readiness_status_and_the_watchdog() {
    let lab = Lab::new("systemd");
    let path = lab.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let listener = Listener(socket);
    let mut command = lab.command(&TREE);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let process = Process::of(command.spawn().unwrap());
    assert_eq!(listener.wait_for("READY").trim(), "READY=1");
    listener.wait_for("STATUS=healthy");
    for _ in 0..3 {
        listener.wait_for("WATCHDOG=1");
    }
    lab.run(&["fault", "kill", "H-3"]).exits(0);
    listener.wait_for("STATUS=degraded: 1 host missing");
    // The watchdog is fed by the manager's own thread: while the process is stopped, nothing comes.
    process.signal("STOP");
    let stat = format!("/proc/{}/stat", process.id());
    wait_for("stop", || {
        std::fs::read_to_string(&stat).unwrap().contains(") T ").then_some(())
    });
    listener.0.set_nonblocking(true).unwrap();
    wait_for("silence", || listener.0.recv(&mut [0; 64]).is_err().then_some(()));
    let quiet = std::time::Instant::now();
    wait_for("time", || (quiet.elapsed().as_millis() > 500).then_some(()));
    assert!(
        listener.0.recv(&mut [0; 64]).is_err(),
        "a stopped manager feeds no watchdog"
    );
    listener.0.set_nonblocking(false).unwrap();
    process.signal("CONT");
    listener.wait_for("WATCHDOG=1");
    process.signal("TERM");
    listener.wait_for("STOPPING=1");
    assert_eq!(process.exit_code(), Some(0));
}
