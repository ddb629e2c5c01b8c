//! `--change` of `selvedge simulate`: what happens to the fabric while packets move.

use selvedge_dataplane::{Change, LinkRate, Timed};
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_types::{Lid, PortNum};

use crate::exit::CliError;
use crate::simulate::time_ns;

/// Reads `50us cut "leaf 1"[20]`, `mend PORT`, `rate PORT 4x-edr`, `entry "leaf 1" LID PORT`.
pub fn parse(text: &str, fabric: &Fabric) -> Result<Timed, CliError> {
    let wrong = |what: &str| CliError::Usage {
        what: format!(
            "--change '{text}': {what}; want a time and cut PORT, mend PORT, rate PORT 4x-edr or entry SWITCH LID \
             PORT, as 50us cut \"leaf 1\"[20]"
        ),
    };
    let (time, rest) = text.trim().split_once(' ').ok_or_else(|| wrong("there is no change"))?;
    let at = time_ns(time).map_err(|what| wrong(&what))? * 1_000;
    let (verb, rest) = rest.trim().split_once(' ').ok_or_else(|| wrong("there is no port"))?;
    let port = |name: &str| port(name.trim(), fabric).ok_or_else(|| wrong(&format!("there is no port {name}")));
    let change = match verb {
        "cut" => Change::Cut(port(rest)?),
        "mend" => Change::Mend(port(rest)?),
        "rate" => {
            let (name, rate) = rest.rsplit_once(' ').ok_or_else(|| wrong("there is no rate"))?;
            let rate: LinkRate = rate.parse()?;
            Change::Rate(port(name)?, rate)
        }
        "entry" => {
            let mut words = rest.rsplitn(3, ' ');
            let mut word = || words.next().ok_or_else(|| wrong("want a switch, a LID and a port"));
            let (output, lid, name) = (word()?, word()?, word()?);
            Change::Entry {
                switch: switch(name.trim(), fabric).ok_or_else(|| wrong(&format!("there is no switch {name}")))?,
                lid: Lid(lid.parse().map_err(|_| wrong("the LID is no number"))?),
                output: output.parse().map_err(|_| wrong("the output is no number"))?,
            }
        }
        _ => return Err(wrong(&format!("'{verb}' is no change"))),
    };
    Ok(Timed { at, change })
}

/// A port as it is printed: `"description"[number]`, or a GUID and a number.
fn port(name: &str, fabric: &Fabric) -> Option<PortRef> {
    let (node, number) = name.strip_suffix(']')?.rsplit_once('[')?;
    let port = PortNum::new(number.parse().ok()?)?;
    let node = fabric.nodes().indices().find(|&idx| is_called(node, fabric, idx))?;
    let at = PortRef { node, port };
    fabric.port(at).map(|_| at)
}

fn switch(name: &str, fabric: &Fabric) -> Option<SwitchIdx> {
    let node = fabric.nodes().indices().find(|&idx| is_called(name, fabric, idx))?;
    fabric.switch_index(node)
}

fn is_called(name: &str, fabric: &Fabric, idx: selvedge_fabric::NodeIdx) -> bool {
    let node = fabric.node(idx);
    name.trim_matches('"') == node.description || name == node.guid.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn changes_are_read() {
        let fabric = load::fabric("karytree:k=2,n=2").unwrap();
        let name = &fabric.node(fabric.switches()[SwitchIdx(0)]).description;
        let check = |text: String| parse(&text, &fabric).unwrap();
        let cut = check(format!("50us cut \"{name}\"[1]"));
        assert_eq!(cut.at, 50_000_000);
        assert!(matches!(cut.change, Change::Cut(at) if at.port.get() == 1));
        assert!(matches!(
            check(format!("1ns mend \"{name}\"[2]")).change,
            Change::Mend(_)
        ));
        assert!(matches!(
            check(format!("1ns rate \"{name}\"[2] 1x-sdr")).change,
            Change::Rate(..)
        ));
        let entry = check(format!("1ns entry \"{name}\" 3 255")).change;
        assert!(matches!(
            entry,
            Change::Entry {
                lid: Lid(3),
                output: 255,
                ..
            }
        ));
    }

    #[test]
    fn what_is_none_is_refused() {
        let fabric = load::fabric("karytree:k=2,n=2").unwrap();
        for text in [
            "50us",
            "50 cut x[1]",
            "50us cut x[1]",
            "50us burn x[1]",
            "5us entry x 1 1",
            "5us rate x[1]",
        ] {
            let error = parse(text, &fabric).unwrap_err().to_string();
            assert!(error.contains("want a time and cut PORT"), "{error}");
        }
    }
}
