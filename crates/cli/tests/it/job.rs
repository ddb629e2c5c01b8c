//! `job`: jobs inside the QoS classes of a running manager.

use crate::support::{Lab, wait_for};

const CLASSES: &str = "[qos]\nclasses = [\"rest: default\", \"MPI: share=60\", \"control: latency=low\"]\n\
                       [daemon]\nstate_dir = \"state\"\n";

fn begin(lab: &Lab) -> crate::support::Process {
    let manager = lab.start(&["run", "--fabric", "karytree:k=4,n=2", "--config", "fm.toml"]);
    wait_for("subnet that is up", || (lab.run(&["status"]).code == 0).then_some(()));
    manager
}

#[test]
fn jobs_start_wait_survive_a_restart_and_end() {
    let lab = Lab::new("job");
    lab.write("fm.toml", CLASSES);
    let manager = begin(&lab);
    let start = |id: &str, more: &[&str]| {
        let front = ["job", "start", id, "--hosts", "H-0,H-5", "--class", "MPI"];
        lab.run(&[&front, more].concat())
    };
    start("sim", &["--share", "40", "--small", "control:4096"])
        .exits(0)
        .says("job sim runs on SL")
        .says("messages of up to 4096 bytes: SL")
        .says("export UCX_IB_SL=");
    // Over-commitment is refused with the sum, or waits.
    start("big", &["--share", "30"])
        .exits(2)
        .complains("SLV-QOS-0066")
        .complains("70 %");
    start("big", &["--share", "30", "--wait"])
        .exits(1)
        .says("job big waits");
    start("sim", &[]).exits(2).complains("SLV-QOS-0060");
    lab.run(&["job", "start", "x", "--hosts", "H-99"])
        .exits(2)
        .complains("SLV-QOS-0063");
    lab.run(&["job", "start", "x", "--hosts", "H-1", "--class", "MPY"])
        .exits(2)
        .complains("did you mean 'MPI'");
    lab.run(&["job", "end", "sym"]).exits(2).complains("did you mean 'sim'");
    lab.run(&["job", "explain", "sym"]).exits(2).complains("SLV-CLI-0062");
    lab.run(&["job", "explain", "big"])
        .exits(0)
        .says("job big is waiting on 2 hosts");
    let exported = lab.run(&["job", "explain", "sim", "--export"]).exits(0).out;
    assert!(exported.lines().all(|line| line.starts_with("export ")), "{exported}");
    let list = || lab.run(&["job", "list", "--json"]).exits(0).json();
    let before = list();
    assert_eq!(before["count"], 2);
    drop(manager);
    let _manager = begin(&lab);
    assert_eq!(list(), before, "jobs survive the process");
    lab.run(&["job", "end", "sim"])
        .exits(0)
        .says("job big waited, and runs now");
    assert_eq!(list()["count"], 1);
}

#[test]
fn an_isolated_job_has_a_partition_while_it_runs() {
    let lab = Lab::new("job-isolated");
    lab.write("fm.toml", CLASSES);
    let _manager = begin(&lab);
    let front = ["job", "start", "alone", "--hosts", "H-0,H-5", "--isolated"];
    lab.run(&front)
        .exits(0)
        .says("P_Key 0xc000")
        .says("export UCX_IB_PKEY=0xc000");
    let partition = || {
        let all = lab.run(&["status", "partitions", "--json"]).exits(0).json();
        let found = all["partitions"]
            .as_array()?
            .iter()
            .find(|of| of["name"] == "job alone")?;
        Some(found["members"].as_array()?.clone())
    };
    wait_for("P_Keys of the job", || {
        let members = partition()?;
        let are_set = members.iter().all(|member| member["set"] == true);
        (members.len() == 2 && are_set).then_some(())
    });
    lab.run(&["job", "end", "alone"]).exits(0);
    wait_for("the end of the partition", || partition().is_none().then_some(()));
}

#[test]
fn without_classes_there_are_no_jobs() {
    let lab = Lab::new("job-none");
    lab.write("fm.toml", "[daemon]\nstate_dir = \"state\"\n");
    let _manager = begin(&lab);
    lab.run(&["job", "start", "a", "--hosts", "H-0"])
        .exits(2)
        .complains("SLV-QOS-0069");
    lab.run(&["job", "list"]).exits(0).says("none");
}

#[test]
fn bandwidths_of_ufm_become_classes_that_a_start_takes() {
    let lab = Lab::new("from-ufm");
    let file = "BW_NAMES\nstorage = 40000\nBW_RULES\ndefault = 3:storage\n";
    lab.write("bw.conf", file);
    let import = |file: &str| lab.run(&["config", "from-ufm", file, "--link-rate", "100000"]);
    let classes = import("bw.conf")
        .exits(0)
        .says("sl3: share=39")
        .complains("least share")
        .out;
    lab.write("fm.toml", &classes);
    lab.run(&["config", "check", "fm.toml"]).exits(0);
    lab.write("wrong.conf", &file.replace("3:storage", "3:storge"));
    import("wrong.conf").exits(2).complains(
        "SLV-CLI-0063: wrong.conf: SLV-QOS-0071: UFM bandwidths, line 4: BW_NAMES has no 'storge'; did you \
         mean 'storage'?",
    );
}
