//! `--change` of `selvedge simulate`: changes of the fabric while packets move.

use std::path::Path;
use std::sync::Arc;

use selvedge_dataplane::{Change, LinkRate, PS_PER_NS, Ps, Timed};
use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_study::simulate::Planned;
use selvedge_types::{Lid, PortNum};

use crate::exit::CliError;
use crate::simulate::time_ns;
use crate::tables_io::whole_tables;

/// Largest number of flaps of one change: a larger one is a mistake.
const FLAPS_MAX: u64 = 100_000;

/// Reads a change with its time: `50us cut "leaf 1"[20]`, or after the time `mend PORT`, `flap PORT down=5us up=20us
/// times=3`, `rate PORT 4x-edr`, `entry "leaf 1" LID PORT`, or `tables FILE`. The last one changes all entries that
/// differ from the dump at the same time.
pub fn parse(text: &str, fabric: &Fabric) -> Result<Planned, CliError> {
    let wrong = |what: &str| CliError::Usage {
        what: format!(
            "--change '{text}': {what}; want a time and cut PORT, mend PORT, flap PORT down=TIME up=TIME times=N, rate \
             PORT 4x-edr, entry SWITCH LID PORT or tables FILE, as 50us cut \"leaf 1\"[20]"
        ),
    };
    let (time, rest) = text.trim().split_once(' ').ok_or_else(|| wrong("there is no change"))?;
    let at = time_ns(time).map_err(|what| wrong(&what))? * PS_PER_NS;
    let (verb, rest) = rest.trim().split_once(' ').ok_or_else(|| wrong("there is no port"))?;
    let port = |name: &str| port(name.trim(), fabric).ok_or_else(|| wrong(&format!("there is no port {name}")));
    let change = match verb {
        "cut" => Change::Cut(port(rest)?),
        "mend" => Change::Mend(port(rest)?),
        "flap" => {
            let place = rest.rfind(']').map_or(rest.len(), |end| end + 1);
            let (name, how) = rest.split_at(place);
            return flaps(port(name)?, at, how).map_err(|what| wrong(&what));
        }
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
        "tables" => {
            let path = Path::new(rest.trim());
            let read = whole_tables(path, fabric, None)?;
            let tables = Arc::new(read.tables);
            return Ok(Planned::Tables { at, tables });
        }
        _ => return Err(wrong(&format!("'{verb}' is no change"))),
    };
    Ok(Planned::One(Timed { at, change }))
}

/// Parses the change of a cable that is cut and mended again and again.
fn flaps(port: PortRef, first: Ps, how: &str) -> Result<Planned, String> {
    let (mut down, mut up, mut times) = (None, None, 1);
    for word in how.split_whitespace() {
        match word.split_once('=') {
            Some(("down", time)) => down = Some(time_ns(time)?),
            Some(("up", time)) => up = Some(time_ns(time)?),
            Some(("times", count)) => times = count.parse().map_err(|_| format!("'{count}' is no number"))?,
            _ => return Err(format!("'{word}' is none of down=TIME, up=TIME, times=N")),
        }
    }
    let (Some(down), up) = (down, up.or(down).unwrap_or(0)) else {
        return Err("there is no down=TIME".to_owned());
    };
    if !(1..=FLAPS_MAX).contains(&times) || down == 0 {
        return Err(format!("want times=1 to {FLAPS_MAX}, and a time down"));
    }
    Ok(Planned::Flaps {
        port,
        first,
        down: down * PS_PER_NS,
        up: up * PS_PER_NS,
        times,
    })
}

/// Reads a port as it is printed: `"description"[number]`, or a GUID and a number.
pub fn port(name: &str, fabric: &Fabric) -> Option<PortRef> {
    let (node, number) = name.strip_suffix(']')?.rsplit_once('[')?;
    let port = PortNum::new(number.parse().ok()?)?;
    let node = self::node(node, fabric)?;
    let at = PortRef { node, port };
    fabric.port(at).map(|_| at)
}

/// Returns a node by its description or GUID.
pub fn node(name: &str, fabric: &Fabric) -> Option<NodeIdx> {
    fabric.nodes().indices().find(|&idx| is_called(name, fabric, idx))
}

fn switch(name: &str, fabric: &Fabric) -> Option<SwitchIdx> {
    fabric.switch_index(node(name, fabric)?)
}

fn is_called(name: &str, fabric: &Fabric, idx: NodeIdx) -> bool {
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
        let one = |text: String| match parse(&text, &fabric).unwrap() {
            Planned::One(timed) => timed,
            other => panic!("{other:?}"),
        };
        let cut = one(format!("50us cut \"{name}\"[1]"));
        assert_eq!(cut.at, 50_000_000);
        assert!(matches!(cut.change, Change::Cut(at) if at.port.get() == 1));
        assert!(matches!(one(format!("1ns mend \"{name}\"[2]")).change, Change::Mend(_)));
        assert!(matches!(
            one(format!("1ns rate \"{name}\"[2] 1x-sdr")).change,
            Change::Rate(..)
        ));
        let entry = one(format!("1ns entry \"{name}\" 3 255")).change;
        assert!(matches!(
            entry,
            Change::Entry {
                lid: Lid(3),
                output: 255,
                ..
            }
        ));
        let flaps = parse(&format!("10us flap \"{name}\"[1] down=2us up=3us times=2"), &fabric).unwrap();
        let Planned::Flaps {
            port,
            first,
            down,
            up,
            times,
        } = flaps
        else {
            panic!("{flaps:?}")
        };
        assert_eq!(
            (port.port.get(), first, down, up, times),
            (1, 10_000_000, 2_000_000, 3_000_000, 2)
        );
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
            "5us flap x[1] down=5us",
        ] {
            let error = parse(text, &fabric).unwrap_err().to_string();
            assert!(error.contains("want a time and cut PORT"), "{error}");
        }
    }
}
