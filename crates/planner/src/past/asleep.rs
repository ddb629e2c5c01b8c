//! Links that were lost and are trained again: they carry no packets now, but did before they were lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Installed, UnderWay};
use selvedge_types::PortNum;
use selvedge_verify::phases::is_asleep;

use super::lost;

/// Adds the links that carried packets in the fabric `before` and are now trained but not ACTIVE. This is needed even
/// if no table has changed. When these links were lost is unknown, so they count as lost now.
pub fn with_links_asleep(
    under_way: Option<Arc<UnderWay>>,
    before: Option<&Fabric>,
    fabric: &Fabric,
    installed: &Installed,
) -> Option<Arc<UnderWay>> {
    let known = under_way.is_some();
    let mut under_way = under_way.unwrap_or_else(|| {
        let lost = before.map_or_else(Vec::new, |before| lost(before, fabric));
        let rest = UnderWay::default();
        Arc::new(UnderWay { lost, ..rest })
    });
    if !under_way.lost.is_empty() {
        note_what_led_there(Arc::make_mut(&mut under_way), fabric, installed);
    }
    (known || !under_way.before.is_empty()).then_some(under_way)
}

/// Counts blocks with entries over lost links as changed. These entries have no effect now (see
/// [`selvedge_verify::phases::Wake`]), but packets may have used them before the links were lost.
fn note_what_led_there(under_way: &mut UnderWay, fabric: &Fabric, installed: &Installed) {
    let known: BTreeSet<_> = under_way.before.iter().map(|(at, block, _)| (*at, *block)).collect();
    let mut before = Vec::new();
    for link in &under_way.lost {
        let Some(from) = link.from else { continue };
        let at = fabric.switches().get(from).zip(PortNum::new(link.port));
        if !at.is_some_and(|(&node, port)| is_asleep(fabric, PortRef { node, port })) {
            continue;
        }
        let blocks = installed.lfts.get(from).into_iter().flatten();
        let leading = (0_u16..)
            .zip(blocks)
            .filter_map(|(block, data)| Some((block, (*data)?)));
        let leading = leading.filter(|(block, data)| data.contains(&link.port) && !known.contains(&(from, *block)));
        before.extend(leading.map(|(block, data)| (from, block, data)));
    }
    before.sort_unstable();
    before.dedup();
    under_way.before.extend(before);
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::SwitchIdx;
    use selvedge_fabric::{FabricBuilder, LinkState, Node};
    use selvedge_plan::{BLOCK_LIDS, LostLink};
    use selvedge_types::{Guid, NodeKind, PhysState, PortState};

    use super::*;

    #[test]
    fn what_led_to_a_link_that_was_lost_and_is_trained_again_has_changed() {
        let check = |state: PortState, leads_to: u8, is_known: bool, want: usize| {
            let port = PortNum::new(1).unwrap();
            let mut b = FabricBuilder::new();
            let keys = [1, 2].map(|guid| {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
                let link = &mut node.port_mut(port).unwrap().link;
                let phys = PhysState::LinkUp;
                *link = LinkState { state, phys, ..*link };
                b.add(node)
            });
            b.link((keys[0], port), (keys[1], port)).unwrap();
            let fabric = b.finish().unwrap();
            let mut installed = Installed::unknown(2);
            installed.learn(SwitchIdx(0), 0, [leads_to; BLOCK_LIDS]);
            let lost = LostLink {
                from: Some(SwitchIdx(0)),
                port: 1,
                to: SwitchIdx(1),
                into: 1,
            };
            let mut under_way = UnderWay {
                before: match is_known {
                    true => vec![(SwitchIdx(0), 0, [7; BLOCK_LIDS])],
                    false => Vec::new(),
                },
                lost: vec![lost],
                ..UnderWay::default()
            };
            note_what_led_there(&mut under_way, &fabric, &installed);
            assert_eq!(under_way.before.len(), want, "{state:?} {leads_to} {is_known}");
        };
        check(PortState::Init, 1, false, 1);
        check(PortState::Init, 2, false, 0);
        check(PortState::Init, 1, true, 1);
        check(PortState::Down, 1, false, 0);
        check(PortState::Active, 1, false, 0);
    }
}
