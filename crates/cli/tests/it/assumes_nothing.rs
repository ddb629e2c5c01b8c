//! The judge assumes nothing. Values that files do not state make the verdict worse or are refused. Pairs are counted
//! against all hosts of the fabric. Nodes out of reach of links or directed routes are named.

use serde_json::Value;

use crate::support::{Lab, Ran};

const RANDOM: &str = "random:switches=32,degree=4,hosts=2,seed=1";

fn first_lines(text: &str, lines: usize) -> String {
    text.lines().take(lines).map(|line| format!("{line}\n")).collect()
}

/// Runs a command line. No word may contain a blank.
fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split_whitespace().collect::<Vec<_>>())
}

/// Returns a lab with LIDs, tables, levels and lanes of a random graph that needs several lanes.
fn routed(name: &str) -> Lab {
    let lab = Lab::new(name);
    let route = format!("route --fabric {RANDOM} --engine dfsssp --vls 4 --no-contention");
    let out = "--lids-out lids --lfts-out lfts --sl-out sls --sl2vl-out sl2vl";
    run(&lab, &format!("{route} {out}")).exits(0);
    lab
}

#[test]
fn what_dumps_do_not_state_is_not_assumed() {
    let lab = routed("gaps");
    let verify = |files: &str| run(&lab, &format!("verify --fabric {RANDOM} {files}"));
    verify("--lids lids --lfts lfts --sls sls --sl2vl sl2vl")
        .exits(0)
        .says("judged good");
    // 17 rows of one switch; there are 32 switches.
    lab.write("short.sl2vl", &first_lines(&lab.read("sl2vl"), 20));
    verify("--lids lids --lfts lfts --sls sls --sl2vl short.sl2vl")
        .exits(2)
        .complains("SLV-TOPOLOGY-0036")
        .complains("\"S-0\" (");
    lab.write("short.sls", &first_lines(&lab.read("sls"), 40));
    verify("--lids lids --lfts lfts --sls short.sls --sl2vl sl2vl")
        .exits(2)
        .complains("SLV-TOPOLOGY-0035")
        .complains("no service level of 56 LIDs in use: LID 41 of ");
    verify("--lids lids --lfts lfts --sl2vl sl2vl")
        .exits(2)
        .complains("without --sls none is known");
    // One lane is the worst case, not a guess: these routes need several.
    verify("--lids lids --lfts lfts --sls sls")
        .exits(1)
        .says("can deadlock");
    // LIDs that one file lacks are found in another one; tables are found nowhere else.
    lab.write("short.lids", &first_lines(&lab.read("lids"), 40));
    verify("--lids short.lids --lfts lfts --sls sls --sl2vl sl2vl").exits(0);
    lab.write("cut.lfts", &first_lines(&lab.read("lfts"), 200));
    verify("--lids lids --lfts cut.lfts --sls sls --sl2vl sl2vl")
        .exits(1)
        .says("SLV-TOPOLOGY-0041 error: cut.lfts: no table of switch ")
        .says("judged not good");
}

/// A dump may repeat a row. A row that states something else for the same key is refused.
#[test]
fn rows_that_contradict_each_other_are_refused() {
    let lab = routed("contradictions");
    let verify = |files: &str| run(&lab, &format!("verify --fabric {RANDOM} {files}"));
    for file in ["lids", "lfts", "sls", "sl2vl"] {
        lab.write(&format!("twice.{file}"), &lab.read(file).repeat(2));
    }
    verify("--lids twice.lids --lfts twice.lfts --sls twice.sls --sl2vl twice.sl2vl")
        .exits(0)
        .says("SLV-TOPOLOGY-0043 warning: twice.lfts:")
        .says("judged good");
    // Every lane row, LID and level comes first in a form that another row contradicts.
    let is_row = |line: &&str| line.contains(" : ") && !line.starts_with('#');
    let zero = |line: &str| format!("{}: {}\n", line.split(':').next().unwrap_or(line), "0 ".repeat(16));
    let sl2vl = lab.read("sl2vl");
    let flat: String = sl2vl
        .lines()
        .map(|line| match is_row(&line) {
            true => zero(line),
            false => format!("{line}\n"),
        })
        .collect();
    lab.write("two.sl2vl", &format!("{flat}{sl2vl}"));
    let sls = lab.read("sls");
    let first = sls.lines().next().unwrap();
    let (lid, level) = first.split_once(' ').unwrap();
    let other = if level == "1" { 2 } else { 1 };
    lab.write("two.sls", &format!("{lid} {other}\n{sls}"));
    let lids = lab.read("lids");
    let guid = lids.split(' ').next().unwrap();
    lab.write("two.lids", &format!("{guid} 0x0100 0x0100\n{lids}"));
    let lfts = lab.read("lfts");
    let row = lfts.lines().nth(1).unwrap();
    lab.write("two.lfts", &lfts.replacen(row, &format!("{} 254\n{row}", &row[..6]), 1));
    for (files, file) in [
        ("--lids lids --lfts lfts --sls sls --sl2vl two.sl2vl", "two.sl2vl"),
        ("--lids lids --lfts lfts --sls two.sls --sl2vl sl2vl", "two.sls"),
        ("--lids two.lids --lfts lfts --sls sls --sl2vl sl2vl", "two.lids"),
        ("--lids lids --lfts two.lfts --sls sls --sl2vl sl2vl", "two.lfts"),
    ] {
        verify(files)
            .exits(2)
            .complains(&format!("SLV-TOPOLOGY-0037: {file}:"))
            .complains("; remove the wrong one");
    }
}

/// What readers find odd is part of the verdict, in every format. Unknown entries make the verdict not good.
#[test]
fn warnings_of_readers_are_findings() {
    let lab = routed("reader-warnings");
    let verify = |lfts: &str, more: &str| {
        run(
            &lab,
            &format!("verify --fabric {RANDOM} --lids lids --lfts {lfts} {more}"),
        )
    };
    let lanes = "--sls sls --sl2vl sl2vl";
    let json = |lfts: &str, exit: i32| verify(lfts, &format!("{lanes} --json")).exits(exit).json();
    let codes = |found: &Value| -> Vec<String> {
        let inputs = found["findings"].as_array().unwrap().iter();
        let inputs = inputs.filter(|finding| finding["kind"] == "input");
        inputs
            .map(|finding| finding["code"].as_str().unwrap().to_owned())
            .collect()
    };
    let whole = lab.read("lfts");
    let good = json("lfts", 0);
    assert_eq!(codes(&good), [""; 0]);
    // The file ends inside its last row: a port with a digit less would be another port.
    let rows = whole.trim_end().rsplit_once('\n').unwrap().0;
    lab.write("cut.lfts", &rows[..rows.rfind(" #").unwrap() - 1]);
    let cut = json("cut.lfts", 1);
    assert_eq!(
        (&cut["ok"], codes(&cut)),
        (&false.into(), vec!["SLV-TOPOLOGY-0047".to_owned()])
    );
    verify("cut.lfts", lanes)
        .exits(1)
        .says("SLV-TOPOLOGY-0047 error: cut.lfts:")
        .says("judged not good");
    verify("cut.lfts", &format!("{lanes} --csv"))
        .exits(1)
        .says("error,SLV-TOPOLOGY-0047,input,false,");
    // A table of another fabric, and a line that is no row.
    let foreign = "Unicast lids [0-9] of switch Lid 9 guid 0x55 (x):\n0x0fff 001 # Switch portguid 0x99: 'x'\n\
                   1 lids dumped\n";
    let odd = whole.replacen("\n0x", "\ngarbage\n0x", 1);
    lab.write("odd.lfts", &format!("{odd}{foreign}"));
    let odd = json("odd.lfts", 0);
    assert_eq!(
        odd["warnings"].as_u64(),
        good["warnings"].as_u64().map(|count| count + 3),
        "{odd}"
    );
    assert_eq!(
        codes(&odd),
        ["SLV-TOPOLOGY-0053", "SLV-TOPOLOGY-0040", "SLV-TOPOLOGY-0045"]
    );
    verify("odd.lfts", lanes)
        .exits(0)
        .says("'garbage' in the table of switch ");
}

/// One LID of two ports, and LIDs of no port, are named with the lines that state them.
#[test]
fn conflicts_of_lids_are_named() {
    const TREE: &str = "karytree:k=4,n=2";
    let lab = Lab::new("lid-conflicts");
    lab.write(
        "two",
        "0x025e1e0200000001 0x0005 0x0005\n\n0x025e1e0200000009 0x0005 0x0005\n",
    );
    lab.write("stranger", "0x9999999900000000 0x0005 0x0005\n");
    lab.write("node", "0x025e1e0200000000 0x0005 0x0005\n");
    let shared = "SLV-TOPOLOGY-0051: two:3: LID 5 of 0x025e1e0200000009 is a LID of 0x025e1e0200000001 in line 1";
    for command in [
        "route --no-contention --lids",
        "simulate --duration 1us --lids",
        "transition --from minhop --to updn --lids",
        "run --once --guid2lid",
    ] {
        let command = command.replacen(' ', &format!(" --fabric {TREE} "), 1);
        run(&lab, &format!("{command} two")).complains(shared);
    }
    let route = format!("route --fabric {TREE} --no-contention");
    run(&lab, &format!("{route} --lids stranger"))
        .exits(0)
        .complains("SLV-TOPOLOGY-0052: stranger: no port of the fabric has 1 of the GUIDs: 0x9999999900000000 (line 1");
    run(&lab, &format!("{route} --lids node"))
        .exits(0)
        .complains("the node GUID of \"H-0\"");
    run(&lab, &format!("{route} --lids-out lids --lfts-out lfts")).exits(0);
    lab.write(
        "more",
        &format!("{}0x9999999900000000 0x0005 0x0005\n", lab.read("lids")),
    );
    run(&lab, &format!("verify --fabric {TREE} --lfts lfts --lids more"))
        .exits(0)
        .says("SLV-TOPOLOGY-0051 warning: more:")
        .says("SLV-TOPOLOGY-0052 warning: more: no port of the fabric")
        .says("judged good: 0 errors, 2 warnings");
}

/// Simulations and transitions on a fabric in several parts report that.
#[test]
fn fabrics_in_parts_are_named() {
    let lab = Lab::new("parts");
    for (fabric, parts) in [
        ("karytree:k=4,n=2,remove-links=15", 7),
        ("ring:switches=4,hosts=1,remove-links=2", 2),
        ("karytree:k=4,n=2", 1),
    ] {
        for (command, meaning) in [
            (
                "simulate --duration 5us --engine updn",
                "packets from one part to another are dropped",
            ),
            (
                "transition --from minhop --to updn",
                "the steps are proved for packets inside each part",
            ),
        ] {
            let ran = run(&lab, &format!("{command} --json --fabric {fabric}"));
            assert_eq!(ran.json()["parts"], parts, "{command} {fabric}");
            if parts == 1 {
                assert!(!ran.err.contains("SLV-ROUTE-0101"), "{}", ran.err);
                continue;
            }
            ran.complains(&format!("SLV-ROUTE-0101: switches form {parts} parts"))
                .complains(meaning);
        }
    }
}

/// Other commands read the same files with the same checks.
#[test]
fn changes_start_from_tables_that_are_known() {
    let lab = routed("gaps-of-changes");
    lab.write("cut.lfts", &first_lines(&lab.read("lfts"), 200));
    lab.write("short.sls", &first_lines(&lab.read("sls"), 40));
    run(
        &lab,
        &format!("transition --fabric {RANDOM} --to updn --from-lfts cut.lfts"),
    )
    .exits(2)
    .complains("SLV-CLI-0011");
    let simulate = format!("simulate --fabric {RANDOM} --engine updn --duration 1us");
    let change = ["--change", "1us tables cut.lfts"];
    lab.run(&[&simulate.split(' ').collect::<Vec<_>>()[..], &change[..]].concat())
        .exits(2)
        .complains("SLV-CLI-0011");
    run(&lab, &format!("{simulate} --sls short.sls"))
        .exits(2)
        .complains("SLV-TOPOLOGY-0035");
}

/// The file states a GUID for one host that another host's second port would get by invention.
#[test]
fn stated_guids_count_more_than_invented_ones() {
    let lab = Lab::new("stated-guids");
    let topo = "switchguid=0x10(10)\nSwitch\t4 \"S-0000000000000010\"\t\t# \"sw\" base port 0 lid 1 lmc 0\n\
                [1]\t\"H-0000000000000020\"[1](21) \t\t# \"a\" lid 2 4xEDR\n\
                [2]\t\"H-0000000000000021\"[1](22) \t\t# \"b\" lid 3 4xEDR\n\n\
                caguid=0x20\nCa\t2 \"H-0000000000000020\"\t\t# \"a\"\n\
                [1](21) \t\"S-0000000000000010\"[1]\t\t# lid 2 lmc 0 \"sw\" lid 1 4xEDR\n\n\
                caguid=0x21\nCa\t2 \"H-0000000000000021\"\t\t# \"b\"\n\
                [1](22) \t\"S-0000000000000010\"[2]\t\t# lid 3 lmc 0 \"sw\" lid 1 4xEDR\n";
    let dump = "Unicast lids [0x0-0x3] of switch Lid 1 guid 0x0000000000000010 (sw):\n\
                0x0001 000 : (Switch portguid 0x0000000000000010: 'sw')\n\
                0x0002 001 : (Channel Adapter portguid 0x0000000000000021: 'a')\n\
                0x0003 002 : (Channel Adapter portguid 0x0000000000000022: 'b')\n3 valid lids dumped \n";
    let (topo, dump) = (lab.write("min.topo", topo), lab.write("min.dump", dump));
    lab.run(&["verify", "--fabric", &topo, "--lfts", &dump])
        .exits(0)
        .says("2 of 2")
        .says("judged good: 0 errors, 0 warnings");
    let known = lab.write("known", "0x21 0x0007 0x0007\n0x22 0x0009 0x0009\n");
    let fresh = lab.path("fresh.topo");
    let text = lab
        .read("min.topo")
        .replace("lid 1 ", "")
        .replace("lid 2 ", "")
        .replace("lid 3 ", "");
    lab.write("fresh.topo", &text);
    let out = lab.path("out");
    lab.run(&[
        "route",
        "--fabric",
        &fresh,
        "--engine",
        "updn",
        "--lids",
        &known,
        "--lids-out",
        &out,
    ])
    .exits(0);
    let lines = lab.read("out");
    for line in ["0x0000000000000021 0x0007 0x0007", "0x0000000000000022 0x0009 0x0009"] {
        assert!(lines.contains(line), "{lines}");
    }
}

#[test]
fn links_that_are_lost_are_counted_against_all_hosts() {
    let lab = Lab::new("compared-parts");
    let compare = "compare --fabric sx6536 --engines updn --seeds 1 --pairings 20 --json --faults";
    let found = run(&lab, &format!("{compare} 324")).exits(0).json();
    let row = |faults: &str| {
        let rows = found["rows"].as_array().unwrap();
        rows.iter().find(|row| row["faults"] == faults).unwrap().clone()
    };
    assert_eq!(
        (&row("0")["good"], &row("0")["unreachable_pairs"]),
        (&1.into(), &0.into())
    );
    // 18 leaves of 18 hosts: 18 * 18 * 17 of 324 * 323 pairs.
    let lost = row("324");
    assert_eq!(
        (&lost["good"], &lost["unreachable_pairs"]),
        (&0.into(), &Value::from(104_652 - 5_508))
    );
    let share = lost["ebb"].as_f64().unwrap();
    assert!(
        (0.02..0.1).contains(&share),
        "{share}: one in eighteen is on the same leaf"
    );
    run(&lab, &format!("{compare} 500"))
        .exits(2)
        .complains("SLV-TOPOLOGY-0050: 500 links cannot be lost: 324");
    run(
        &lab,
        "simulate --fabric ring:switches=4,hosts=1 --engine minhop --lost 5",
    )
    .exits(2)
    .complains("5 links cannot be lost: 4");
}

#[test]
fn a_fabric_in_parts_is_not_good() {
    let lab = Lab::new("parts");
    let parts = "sx6536:remove-links=324";
    let route = "--engine updn --lids-out lids --lfts-out lfts --no-contention";
    run(&lab, &format!("route --fabric {parts} {route}"))
        .exits(1)
        .says("judged not good: 0 errors")
        .says("5,508 of 104,652 host pairs reach each other, in 27 parts")
        .says("SLV-JUDGE-0023");
    let verify = format!("verify --fabric {parts} --lids lids --lfts lfts");
    let found = run(&lab, &format!("{verify} --json")).exits(1).json();
    assert_eq!((&found["ok"], &found["errors"]), (&false.into(), &0.into()));
    assert_eq!(found["figures"]["host_pairs"], 104_652);
    run(&lab, &format!("{verify} --accept separated"))
        .exits(0)
        .says("judged good")
        .says("in 27 parts");
    let ring = "ring:switches=6,hosts=2,remove-links=2";
    run(&lab, &format!("backups --fabric {ring} --engine updn --kinds link"))
        .exits(1)
        .says("before any fault")
        .says("in 2 parts");
    run(&lab, &format!("run --fabric {ring} --once"))
        .exits(1)
        .says("not found");
}

/// Separate rails are not parts of one fabric.
#[test]
fn rails_are_good() {
    let lab = Lab::new("good-rails");
    let rails = "mport:m=4,n=2,rails=2";
    run(&lab, &format!("route --fabric {rails} --engine updn --no-contention"))
        .exits(0)
        .says("112 of 112")
        .says("judged good");
    run(&lab, &format!("run --fabric {rails} --once")).exits(0);
}

#[test]
fn what_is_beyond_63_hops_is_named() {
    let lab = Lab::new("far");
    let ring = |switches: u32| format!("ring:switches={switches},hosts=1");
    let [lids, lfts] = ["lids", "lfts"].map(|name| lab.path(name));
    let route = |fabric: &str| {
        let args = ["route", "--fabric", fabric, "--engine", "updn", "--no-contention"];
        lab.run(&[&args[..], &["--lids-out", &lids, "--lfts-out", &lfts]].concat())
    };
    route(&ring(123)).exits(0).says("judged good");
    route("mesh:126x1,hosts=1")
        .exits(1)
        .says("1 switches and 3 hosts are beyond the 63 hops");
    route(&ring(140))
        .exits(1)
        .says("SLV-JUDGE-0025")
        .says("15 switches and 17 hosts are beyond the 63 hops of a directed route");
    let ring = ring(140);
    let verify = ["verify", "--fabric", &ring, "--lids", &lids, "--lfts", &lfts];
    lab.run(&verify).exits(1).says("judged not good: 0 errors");
    lab.run(&[&verify[..], &["--accept", "out-of-reach"]].concat()).exits(0);
    let run = ["run", "--fabric", &ring, "--once"];
    lab.run(&run)
        .exits(1)
        .complains("SLV-SM-0029")
        .says("SLV-PORTSTATE-0012")
        .says("not found 17 hosts");
    let found = lab.run(&[&run[..], &["--json"]].concat()).exits(1).json();
    assert_eq!(found["hosts_not_found"].as_array().unwrap().len(), 17);
}

/// Ports on another rail are never queried: their state is unknown.
#[test]
fn ports_that_were_not_asked_are_unknown() {
    let lab = Lab::new("unknown-ports");
    let found = lab
        .run(&["run", "--fabric", "mport:m=4,n=2,rails=2", "--once", "--json"])
        .exits(0)
        .json();
    let ports = found["ports_not_active"].as_array().unwrap();
    let other_rail: Vec<&Value> = ports
        .iter()
        .filter(|port| port["reason_code"] == "SLV-PORTSTATE-0009")
        .collect();
    assert_eq!(other_rail.len(), 8, "{ports:?}");
    for port in other_rail {
        for key in ["state", "phys_state", "mtu_bytes", "lid", "lmc", "width"] {
            assert_eq!(port[key], Value::Null, "{key}: {port}");
        }
    }
    assert_eq!(found["status"]["fabric"]["hosts"], 8);
}
