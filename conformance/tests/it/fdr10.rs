//! FDR10, which PortInfo shows as QDR: infiniband-diags find it on our emulator by the vendor attribute, as on
//! hardware.

use std::fs;

use selvedge_conformance::{HeavyLock, PeerLab};

use crate::support::{Fabric, emulate};

/// Counts a rate in a program's output.
fn count(text: &str, rate: &str) -> usize {
    text.split(|c: char| c.is_whitespace())
        .filter(|word| *word == rate)
        .count()
}

#[test]
fn infiniband_diags_show_fdr10() {
    let _heavy = HeavyLock::acquire().unwrap();
    for (rate, link) in [("4xFDR10", "(FDR10)"), ("4xQDR", "10.0")] {
        let lab = PeerLab::new().unwrap();
        let spec = format!("mport:m=4,n=2,rate={rate}");
        let fabric = Fabric::new(&lab, &spec);
        let _emulator = emulate(&lab, &spec);
        let seat = &fabric.planes[0].seat;
        let listing = lab.output(seat, "ibnetdiscover", &[]).unwrap();
        // Both ends of 8 links between switches and of 8 links to hosts.
        assert_eq!(count(&listing, rate), 32, "{listing}");
        let links = lab.output(seat, "iblinkinfo", &["-l"]).unwrap();
        assert!(links.contains(link), "{links}");
        assert_eq!(links.contains("FDR10"), rate == "4xFDR10", "{links}");
    }
}

#[test]
fn a_listing_without_devices_shows_fdr10() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let text = "switchguid=0xa10(a10)\nSwitch\t4 \"S-0000000000000a10\"\t\t# \"leaf\" base port 0 lid 1 lmc 0\n\
                [1]\t\"H-0000000000000b10\"[1](b11)\t\t# \"h1\" lid 2 4xFDR10\n\
                [2]\t\"H-0000000000000b20\"[1](b21)\t\t# \"h2\" lid 3 4xQDR\n\n\
                caguid=0xb10\nCa\t1 \"H-0000000000000b10\"\t\t# \"h1\"\n\
                [1](b11)\t\"S-0000000000000a10\"[1]\t\t# lid 2 lmc 0 \"leaf\" lid 1 4xFDR10\n\n\
                caguid=0xb20\nCa\t1 \"H-0000000000000b20\"\t\t# \"h2\"\n\
                [1](b21)\t\"S-0000000000000a10\"[2]\t\t# lid 3 lmc 0 \"leaf\" lid 1 4xQDR\n";
    let file = lab.folder().join("mix.topo");
    fs::write(&file, text).unwrap();
    let _emulator = emulate(&lab, file.to_str().unwrap());
    let listing = lab.output("h2", "ibnetdiscover", &[]).unwrap();
    assert_eq!(
        (count(&listing, "4xFDR10"), count(&listing, "4xQDR")),
        (2, 2),
        "{listing}"
    );
    let held = lab
        .output("h2", "smpquery", &["-D", "MlnxExtPortInfo", "0,1", "1"])
        .unwrap();
    assert!(
        held.lines()
            .any(|line| line.starts_with("LinkSpeedActive") && line.ends_with("0x01")),
        "{held}"
    );
    // The emulator has the LIDs of the listing without a manager.
    assert!(listing.contains("# \"h1\" lid 2 4xFDR10"), "{listing}");
}
