//! The class of a query for a path.

use selvedge_plan::qos::Asked;
use selvedge_types::Sl;

use super::{Compiled, Match, Ulp};
use crate::opensm::policy::ulp_service_ids;

/// What a query's class depends on besides the query.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// TClass of the query, if it is in the component mask.
    pub traffic_class: Option<u8>,
    /// Requested service level, if it is in the component mask.
    pub sl: Option<Sl>,
    /// Answers whether source or destination belongs to a port group.
    pub is_in_group: &'a dyn Fn(&str) -> bool,
    /// Answers whether source and destination run a job.
    pub is_in_job: &'a dyn Fn(&str) -> bool,
}

/// Returns the class of a query, by index: the first class of the intent with a match that fits, or the default class.
/// A match on a field that is not in the query's component mask does not fit.
#[must_use]
pub fn class_of(compiled: &Compiled, asked: &Asked, context: &Context<'_>) -> usize {
    let fits = |wanted: &Match| fits(wanted, asked, context);
    let mut classes = compiled.classes.iter();
    let found = classes.position(|plan| plan.class.matches.iter().any(fits));
    found.unwrap_or(compiled.default)
}

fn fits(wanted: &Match, asked: &Asked, context: &Context<'_>) -> bool {
    let base = asked.pkey.map(|pkey| pkey.0 & 0x7FFF);
    match wanted {
        Match::Job(name) => (context.is_in_job)(name),
        Match::Partition(key) => base == Some(key & 0x7FFF),
        Match::ServiceId(first, last) => asked.service_id.is_some_and(|id| (*first..=*last).contains(&id)),
        Match::Ulp(Ulp::Ipoib) => base == Some(0x7FFF),
        Match::Ulp(ulp) => {
            let ids = ulp_service_ids(ulp.name()).zip(asked.service_id);
            ids.is_some_and(|((first, last), id)| (first..=last).contains(&id))
        }
        Match::PortGroup(name) => (context.is_in_group)(name),
        Match::TrafficClass(class) => context.traffic_class == Some(*class),
        Match::Sl(sl) => context.sl == Some(*sl),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, Mtu, NodeKind, PKey};

    use super::super::compile;
    use super::*;
    use crate::intent::{Class, Hardware, Intent};
    use crate::opensm::policy::End;

    /// One class for each match, in this order, after the default class.
    fn policy(matches: Vec<Match>) -> Compiled {
        let class = |(at, matches): (usize, Vec<Match>)| Class {
            name: format!("c{at}"),
            matches,
            ..Class::default()
        };
        let lists = std::iter::once(Vec::new()).chain(matches.into_iter().map(|one| vec![one]));
        let intent = Intent {
            classes: lists.enumerate().map(class).collect(),
            default: "c0".to_owned(),
            ..Intent::default()
        };
        let hardware = Hardware {
            lanes: 15,
            vl_arb_high: 0,
            vl_arb_low: 16,
            mtu: Mtu::B4096,
        };
        compile(&intent, &hardware, 1).unwrap()
    }

    #[test]
    fn the_first_match_that_fits_gives_the_class() {
        let policy = policy(vec![
            Match::Job("j".to_owned()),
            Match::Partition(0x8005),
            Match::ServiceId(10, 20),
            Match::Ulp(Ulp::Sdp),
            Match::Ulp(Ulp::Ipoib),
            Match::PortGroup("g".to_owned()),
            Match::TrafficClass(7),
            Match::Sl(Sl::new(3).unwrap()),
            Match::Ulp(Ulp::Iser),
        ]);
        let end = End {
            guid: Guid(1),
            kind: NodeKind::Ca,
        };
        let asked = Asked {
            source: end,
            destination: end,
            service_id: None,
            class: None,
            pkey: None,
        };
        let id = |id| Asked {
            service_id: Some(id),
            ..asked
        };
        let pkey = |pkey| Asked {
            pkey: Some(PKey(pkey)),
            ..asked
        };
        let never = |_: &str| false;
        let context = Context {
            traffic_class: None,
            sl: None,
            is_in_group: &never,
            is_in_job: &never,
        };
        let check = |asked: &Asked, context: &Context<'_>, want| assert_eq!(class_of(&policy, asked, context), want);
        check(&asked, &context, 0);
        check(&id(9), &context, 0);
        check(&id(20), &context, 3);
        check(&id(0x1_0001), &context, 4);
        check(&id(0x106_0CBC), &context, 9);
        check(&pkey(5), &context, 2);
        check(&pkey(0xFFFF), &context, 5);
        let in_g = |name: &str| name == "g";
        let of_group = Context {
            is_in_group: &in_g,
            ..context
        };
        check(&asked, &of_group, 6);
        check(&id(20), &of_group, 3);
        let is_j = |name: &str| name == "j";
        let of_job = Context {
            is_in_job: &is_j,
            ..of_group
        };
        check(&id(20), &of_job, 1);
        let with = |traffic_class, sl| Context {
            traffic_class,
            sl,
            ..context
        };
        check(&asked, &with(Some(7), None), 7);
        check(&asked, &with(Some(8), Sl::new(3)), 8);
    }
}
