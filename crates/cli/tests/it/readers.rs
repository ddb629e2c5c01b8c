//! Files that commands read: devices, traces that expand, listings with rates and LIDs, comparisons.
use std::process::Command;

use crate::support::Lab;

const RING: &str = "ring:switches=4,hosts=1";

#[test]
fn only_regular_files_are_read() {
    let lab = Lab::new("regular");
    let fifo = lab.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let readers: [&[&str]; 14] = [
        &["topology", "show"],
        &["topology", "show", RING, "--node-name-map"],
        &["verify", "--fabric", RING, "--lfts"],
        &["verify", "--fabric", RING, "--lfts", "x", "--lids"],
        &["route", "--fabric", RING, "--roots"],
        &["route", "--fabric", RING, "--engine", "minhop", "--hop-weights"],
        &["route", "--fabric", RING, "--lids"],
        &["run", "--fabric", RING, "--once", "--config"],
        &["run", "--fabric", RING, "--once", "--partitions"],
        &["run", "--fabric", RING, "--once", "--opensm-conf"],
        &["run", "--fabric", RING, "--once", "--lfts"],
        &["simulate", "--fabric", RING, "--goal"],
        &["replay"],
        &["config", "check"],
    ];
    for reader in readers {
        // A folder, a FIFO without a writer, and an endless device.
        for (file, what) in [
            (fifo.as_str(), "a FIFO"),
            ("/dev/zero", "a device"),
            ("/tmp", "a folder"),
        ] {
            let line: Vec<&str> = reader.iter().copied().chain([file]).collect();
            let ran = lab.run(&line);
            assert_eq!(ran.code, 2, "{line:?}: {ran:?}");
            assert!(
                ran.err
                    .contains(&format!("it is {what}, and only regular files are read")),
                "{line:?}: {ran:?}"
            );
        }
    }
    lab.run(&["experiment", "--check", "/dev/zero"])
        .exits(2)
        .complains("it is a device");
    lab.run(&["decode", "--file", "/dev/zero"])
        .exits(2)
        .complains("it is a device");
}

#[test]
fn standard_input_has_a_name() {
    let lab = Lab::new("stdin");
    let net = lab.run(&["topology", "generate", RING]).exits(0).out;
    lab.run_with_input(&["topology", "diff", RING, "-"], &net).exits(0);
    lab.run_with_input(&["topology", "show", "-"], "nothing\n")
        .exits(2)
        .complains("SLV-TOPOLOGY-0010");
}

/// Returns a rank with `count` operations. Each depends on the two before it, by both kinds of dependency.
fn dense_trace(count: usize) -> String {
    let mut text = "num_ranks 2\nrank 0 {\n".to_owned();
    text.extend((0..count).map(|op| format!("l{op}: calc 1\n")));
    for op in 1..count {
        for before in op.saturating_sub(2)..op {
            text += &format!("l{op} requires l{before}\nl{op} irequires l{before}\n");
        }
    }
    text + "}\nrank 1 {\n}\n"
}

#[test]
fn traces_take_time_and_memory_by_their_length() {
    let lab = Lab::new("goal");
    let simulate = [
        "simulate",
        "--fabric",
        RING,
        "--warmup",
        "0ns",
        "--duration",
        "1us",
        "--json",
        "--goal",
    ];
    let run = |text: &str| {
        let file = lab.write("trace.goal", text);
        let line: Vec<&str> = simulate.iter().copied().chain([file.as_str()]).collect();
        lab.run(&line)
    };
    for count in [40, 2_000] {
        let results = run(&dense_trace(count)).exits(0).json();
        assert_eq!(results["completed_ns"], count);
        let peak = results["peak_rss_bytes"].as_u64().unwrap_or(0);
        assert!(peak < 200_000_000, "{count}: {peak} bytes");
    }
    let check = |text: &str, line: usize, what: &str| {
        run(text)
            .exits(2)
            .complains(&format!("SLV-WORKLOAD-0006: line {line}: "))
            .complains(what);
    };
    check(
        "num_ranks 1\nrank 0 {\nl1: calc 18446744073709551615\nl2: calc 1\nl2 requires l1\n}\n",
        3,
        "ns",
    );
    check(
        "num_ranks 2\nrank 0 {\ncalc 1\n}\nnum_ranks 1\n",
        5,
        "a second num_ranks",
    );
    let circle = "num_ranks 2\nrank 0 {\nl1: calc 1\nl2: calc 1\nl1 irequires l2\nl2 irequires l1\n}\n";
    check(circle, 6, "in a circle");
}

#[test]
fn collectives_take_memory_by_their_messages() {
    let lab = Lab::new("collective");
    let run = |traffic: &str| {
        let line = [
            "simulate",
            "--fabric",
            "single:ports=100,hosts=100",
            "--traffic",
            traffic,
            "--duration",
            "1us",
            "--json",
        ];
        lab.run(&line)
    };
    run("exchange:bytes=64,repeat=1000").exits(0);
    run("ring-all-reduce:repeat=1000").exits(0);
    let line = [
        "simulate",
        "--fabric",
        "sx6536",
        "--traffic",
        "ring-all-reduce:repeat=1000",
    ];
    lab.run(&line).exits(2).complains("SLV-WORKLOAD-0010");
}

/// Returns a listing of a switch and hosts, each on its own link. `links` are the rate and LID of each host.
fn listing(links: &[(&str, u16)]) -> String {
    let mut text = "switchguid=0xa10000000010(a10000000010)\n\
                    Switch\t36 \"S-0000a10000000010\"\t\t# \"leaf\" enhanced port 0 lid 1 lmc 0\n"
        .to_owned();
    for (port, (rate, lid)) in (1..).zip(links) {
        text += &format!(
            "[{port}]\t\"H-0000a1000000{port}000\"[1](a1000000{port}001) \t\t# \"h{port}\" lid {lid} {rate}\n"
        );
    }
    for (port, (rate, lid)) in (1..).zip(links) {
        text += &format!(
            "\ncaguid=0xa1000000{port}000\nCa\t1 \"H-0000a1000000{port}000\"\t\t# \"h{port}\"\n\
             [1](a1000000{port}001) \t\"S-0000a10000000010\"[{port}]\t\t# lid {lid} lmc 0 \"leaf\" lid 1 {rate}\n"
        );
    }
    text
}

#[test]
fn every_rate_of_a_listing_is_shown_as_it_is() {
    let lab = Lab::new("rates");
    let file = lab.write(
        "xdr.topo",
        &listing(&[("4xXDR", 2), ("2xXDR", 3), ("4xNDR", 4), ("8xHDR", 5), ("4x???", 6)]),
    );
    let links = lab.run(&["topology", "show", &file, "--links", "--json"]).exits(0);
    let links = links.complains("SLV-TOPOLOGY-0022").json();
    let rates: Vec<&str> = links["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link["rate"].as_str().unwrap())
        .collect();
    assert_eq!(rates, ["4xXDR", "2xXDR", "4xNDR", "8xHDR", "4x???"]);
    // The listing survives a round trip.
    let written = lab
        .run(&["topology", "convert", &file, "--to", "ibnetdiscover"])
        .exits(0)
        .out;
    assert!(
        written.contains("4xXDR") && written.contains("2xXDR") && written.contains("4x???"),
        "{written}"
    );
    let figures = lab.run(&["simulate", "--fabric", &file, "--duration", "1us"]);
    figures
        .exits(2)
        .complains("SLV-DATA-0012: the speed of the link at \"leaf\"[5] is unknown");
    let wide = lab.write("wide.topo", &listing(&[("16xXDR", 2), ("4xXDR", 3)]));
    lab.run(&["topology", "show", &wide])
        .exits(2)
        .complains("SLV-TOPOLOGY-0018")
        .complains("16xXDR is no rate");
    // XDR is simulated at 800 Gbit/s with an offered load of 0.3. Packets have 2,048 bytes and 26 bytes of headers.
    // (Above 0.48, the default buffers wait for credits.)
    let xdr = lab.write("two.topo", &listing(&[("4xXDR", 2), ("4xXDR", 3)]));
    let ran = lab.run(&[
        "simulate",
        "--fabric",
        &xdr,
        "--traffic",
        "shift",
        "--load",
        "0.3",
        "--duration",
        "10us",
        "--json",
    ]);
    let results = ran.exits(0).json();
    let (packets, time) = (results["packets_measured"].as_f64().unwrap(), 10_000.0);
    let gbit = packets * 2_074.0 * 8.0 / time / 2.0;
    assert!((225.0..=250.0).contains(&gbit), "{gbit} Gbit/s in each direction");
}

#[test]
fn comparisons_see_what_listings_state() {
    let lab = Lab::new("diff");
    let base = listing(&[("4xEDR", 2), ("4xHDR", 3)]);
    lab.write("base", &base);
    let check = |after: &str, want: &[&str]| {
        lab.write("after", after);
        let diff = ["topology", "diff", "base", "after"];
        let text = lab.run(&diff);
        let json = lab.run(&[&diff[..], &["--json"]].concat());
        let csv = lab.run(&[&diff[..], &["--csv"]].concat());
        let code = i32::from(!want.is_empty());
        assert_eq!(text.out.lines().collect::<Vec<_>>(), want);
        let (text, json, csv) = (text.exits(code), json.exits(code).json(), csv.exits(code));
        assert_eq!(text.out.lines().count(), want.len());
        assert_eq!(json["equal"], want.is_empty());
        assert_eq!(json["changes"].as_array().unwrap().len(), want.len());
        assert_eq!(csv.out.lines().next(), Some("change,what,name,attribute,before,after"));
        assert_eq!(csv.out.lines().count(), 1 + want.len());
    };
    check(&base, &[]);
    check(
        &listing(&[("1xSDR", 2), ("4xHDR", 3)]),
        &["~ link \"leaf\"[1] - \"h1\"[1] rate 4xEDR -> 1xSDR"],
    );
    check(
        &listing(&[("4xEDR", 55), ("4xHDR", 3)]),
        &["~ port \"h1\"[1] LID 2 -> 55"],
    );
    check(
        &base.replace("lmc 0 \"leaf\" lid 1 4xHDR", "lmc 0 \"leaf\" lid 1 4xEDR"),
        &["~ link \"leaf\"[2] - \"h2\"[1] rate 4xHDR -> 4xEDR"],
    );
    check(
        &base.replace("enhanced port 0", "base port 0"),
        &["~ node 0x0000a10000000010 \"leaf\" port 0 enhanced -> base"],
    );
    check(
        &base.replace("Switch\t36", "Switch\t40"),
        &["~ node 0x0000a10000000010 \"leaf\" ports 36 -> 40"],
    );
    check(
        &format!("devid=0x7\n{base}"),
        &["~ node 0x0000a10000000010 \"leaf\" device 0x0 -> 0x7"],
    );
    check(
        &base.replace("# \"h2\"", "# \"h9\""),
        &["~ node 0x0000a10000002000 \"h2\" -> \"h9\""],
    );
    // A source that states no LIDs causes no difference.
    let without = base
        .replace(" lid 1", " lid 0")
        .replace(" lid 2", " lid 0")
        .replace(" lid 3", " lid 0");
    check(&without, &[]);
}

#[test]
fn a_listing_is_rehearsed_with_its_lids_and_tables() {
    let lab = Lab::new("held");
    let file = lab.write("real.topo", &listing(&[("4xHDR", 77), ("4xHDR", 30), ("4xEDR", 12)]));
    let lfts = lab.write(
        "lfts.dump",
        "Unicast lids [0-77] of switch Lid 1 guid 0x0000a10000000010 ('leaf'):\n\
         0x0001 000 : (Switch portguid 0x0000a10000000010: 'leaf')\n\
         0x000c 003 : (Channel Adapter portguid 0x0000a10000003001: 'h3')\n\
         0x001e 002 : (Channel Adapter portguid 0x0000a10000002001: 'h2')\n\
         0x004d 001 : (Channel Adapter portguid 0x0000a10000001001: 'h1')\n\
         4 valid lids dumped\n",
    );
    let lids = |args: &[&str]| {
        let run = [
            "run",
            "--fabric",
            file.as_str(),
            "--once",
            "--lids-out",
            "lids",
            "--json",
        ];
        let ran = lab.run(&[&run[..], args].concat()).exits(0).json();
        let text = lab.read("lids");
        let of = |guid: &str| text.lines().find(|line| line.starts_with(guid)).map(str::to_owned);
        assert_eq!(
            of("0x0000a10000001001").as_deref(),
            Some("0x0000a10000001001 0x004d 0x004d")
        );
        assert_eq!(
            of("0x0000a10000002001").as_deref(),
            Some("0x0000a10000002001 0x001e 0x001e")
        );
        assert_eq!(
            of("0x0000a10000003001").as_deref(),
            Some("0x0000a10000003001 0x000c 0x000c")
        );
        ran
    };
    let sets = |ran: &serde_json::Value| ran["status"]["mads"]["sets"].as_u64().unwrap();
    let (anew, kept) = (lids(&[]), lids(&["--lfts", &lfts]));
    // The tables are installed already: their blocks and LinearFDBTop need no Set.
    assert!(sets(&kept) + 2 <= sets(&anew), "{anew} {kept}");
    lab.run(&["run", "--port", "ibsim:none", "--lfts", &lfts])
        .exits(2)
        .complains("--port");
}
