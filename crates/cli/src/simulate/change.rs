//! `--change` of `selvedge simulate`: what happens to the fabric while packets move.

use std::path::Path;

use selvedge_dataplane::{Change, LinkRate, PS_PER_NS, Ps, Timed};
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, NO_PATH, Tables};
use selvedge_types::{Lid, PortNum};

use crate::exit::CliError;
use crate::simulate::time_ns;
use crate::tables_io::whole_tables;

/// Flaps of one change at most: more are a mistake.
const FLAPS_MAX: u64 = 100_000;

/// Reads `50us cut "leaf 1"[20]`, `mend PORT`, `flap PORT down=5us up=20us times=3`, `rate PORT 4x-edr`,
/// `entry "leaf 1" LID PORT`, `tables FILE`: all entries of a dump that differ from `tables`, at once.
pub fn parse(text: &str, fabric: &Fabric, tables: &Tables) -> Result<Vec<Timed>, CliError> {
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
            return Ok(differing(at, tables, &read.tables));
        }
        _ => return Err(wrong(&format!("'{verb}' is no change"))),
    };
    Ok(vec![Timed { at, change }])
}

/// A cable that is cut and mended, again and again.
fn flaps(port: PortRef, first: Ps, how: &str) -> Result<Vec<Timed>, String> {
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
    let flap = |round: u64| {
        let cut = first + round * (down + up) * PS_PER_NS;
        let mend = cut + down * PS_PER_NS;
        [(cut, Change::Cut(port)), (mend, Change::Mend(port))]
    };
    Ok((0..times)
        .flat_map(flap)
        .map(|(at, change)| Timed { at, change })
        .collect())
}

/// The blocks in which two sets of tables differ: what a manager that goes from one to the other Sets.
fn differing(at: Ps, old: &Tables, new: &Tables) -> Vec<Timed> {
    let mut changes = Vec::new();
    for switch in new.switch_indices() {
        for block in 0..=usize::from(new.top().0) / BLOCK_LIDS {
            let lids =
                (block * BLOCK_LIDS) as u16..=(block * BLOCK_LIDS + BLOCK_LIDS - 1).min(usize::from(u16::MAX)) as u16;
            if lids
                .clone()
                .any(|lid| old.get(switch, Lid(lid)) != new.get(switch, Lid(lid)))
            {
                let mut entries = Box::new([NO_PATH; BLOCK_LIDS]);
                for (entry, lid) in entries.iter_mut().zip(lids) {
                    *entry = new.get(switch, Lid(lid));
                }
                let block = block as u16;
                let change = Change::Block { switch, block, entries };
                changes.push(Timed { at, change });
            }
        }
    }
    changes
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
        let tables = Tables::new(fabric.switches().len(), Lid(8));
        let all = |text: String| parse(&text, &fabric, &tables).unwrap();
        let check = |text: String| all(text).pop().unwrap();
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
        let flaps = all(format!("10us flap \"{name}\"[1] down=2us up=3us times=2"));
        let times: Vec<_> = flaps.iter().map(|timed| timed.at / 1_000_000).collect();
        assert_eq!(times, [10, 12, 15, 17]);
        let is_cut = |timed: &Timed| matches!(timed.change, Change::Cut(_));
        assert_eq!(flaps.iter().map(is_cut).collect::<Vec<_>>(), [true, false, true, false]);
    }

    #[test]
    fn blocks_that_differ_are_set() {
        let mut old = Tables::new(3, Lid(200));
        old.set(SwitchIdx(1), Lid(3), 7);
        let mut new = old.clone();
        assert_eq!(differing(5, &old, &new), []);
        new.set(SwitchIdx(1), Lid(150), 9);
        let found = differing(5, &old, &new);
        let [
            Timed {
                at: 5,
                change: Change::Block { switch, block, entries },
            },
        ] = &found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((*switch, *block, entries[150 % BLOCK_LIDS]), (SwitchIdx(1), 2, 9));
        assert_eq!(entries[0], NO_PATH);
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
            let tables = Tables::new(fabric.switches().len(), Lid(8));
            let error = parse(text, &fabric, &tables).unwrap_err().to_string();
            assert!(error.contains("want a time and cut PORT"), "{error}");
        }
    }
}
