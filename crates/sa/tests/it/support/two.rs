//! A master of this project, and a standby that copies its registrations.

use std::time::Duration;

use selvedge_sa::{Config, Copier, CopyConfig, Input, Output, Registrations, Sa, Worth};
use selvedge_types::Lid;
use selvedge_wire::sa::records;
use selvedge_wire::{Attribute, AttributeId, Datagram, Gid, Mad, Method, PortInfo, Status};

use super::{Bench, Value, Wish, group_parameters, number};

const IPOIB: Gid = Gid([
    0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
]);

pub const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

/// A master with its administrator, and a standby at a host of the same fabric.
pub struct Two {
    pub master: Bench,
    /// LID of the standby.
    pub own: Lid,
    pub copier: Copier,
    pub copies: usize,
    pub copy: Registrations,
    /// If set, the master does not support revision queries: it refuses them, or does not answer, as OpenSM.
    pub is_foreign: Option<bool>,
    /// True if the master answers no request of the standby.
    pub is_dead: bool,
    /// The next datagram for the standby is lost.
    pub loses_next: bool,
    /// Answers to hosts.
    pub told: Vec<Datagram>,
}

impl Two {
    pub fn new() -> Self {
        Self::with(&Wish::new(TREE))
    }

    pub fn with(wish: &Wish) -> Self {
        let config = Config {
            life: 77,
            ..Config::default()
        };
        let master = Bench::with(wish, config);
        let own = master.host(5);
        let mut copier = Copier::new(CopyConfig::default());
        copier.begin(master.now);
        Self {
            master,
            own,
            copier,
            copies: 0,
            copy: Registrations::default(),
            is_foreign: None,
            is_dead: false,
            loses_next: false,
            told: Vec::new(),
        }
    }

    /// Returns the answers to a datagram of the copier.
    pub fn answers(&mut self, asked: &Datagram) -> Vec<Datagram> {
        if asked.mad.attribute() == AttributeId::PORT_INFO {
            let info = PortInfo {
                lid: self.own,
                sm_lid: self.master.host(0),
                ..PortInfo::default()
            };
            let mut mad = asked.mad;
            mad.set_method(Method::GetResp);
            mad.set_smp_data(&info.emit());
            return vec![Datagram { mad, ..*asked }];
        }
        assert_eq!(asked.address.lid, self.master.host(0));
        if self.is_dead {
            return Vec::new();
        }
        if let Some(refuses) = self
            .is_foreign
            .filter(|_| asked.mad.attribute() == records::REVISION.id)
        {
            if !refuses {
                return Vec::new();
            }
            let mut mad = asked.mad;
            mad.set_method(Method::GetResp);
            mad.set_status(Status::BAD_METHOD_ATTRIBUTE);
            return vec![Datagram { mad, ..*asked }];
        }
        self.master.lid = self.own;
        let said = self.master.send(&asked.mad);
        self.said(said)
    }

    /// Returns the datagrams of the master that reach the standby; answers to hosts are kept.
    pub fn said(&mut self, said: Vec<Output>) -> Vec<Datagram> {
        let datagrams = said.into_iter().map(|output| output.datagram);
        let (mut ours, told): (Vec<_>, Vec<_>) = datagrams.partition(|to| to.address.lid == self.own);
        self.told.extend(told);
        if !ours.is_empty() && std::mem::take(&mut self.loses_next) {
            ours.remove(0);
        }
        if self.is_dead {
            ours.clear();
        }
        ours
    }

    /// Passes arrived datagrams to the copier, and continues until no datagram is in flight.
    pub fn hand(&mut self, mut arrived: Vec<Datagram>) {
        for _ in 0..10_000 {
            if arrived.is_empty() {
                return;
            }
            let mut out = Vec::new();
            for datagram in arrived.drain(..) {
                self.copier.received(self.master.now, &datagram, &mut out);
            }
            if let Some(copy) = self.copier.take() {
                self.copies += 1;
                self.copy = *copy;
            }
            arrived = out.iter().flat_map(|output| self.answers(&output.datagram)).collect();
        }
        panic!("it never rests");
    }

    /// Lets this many milliseconds pass.
    pub fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.master.now += Duration::from_millis(1);
            let mut out = Vec::new();
            self.copier.wake(self.master.now, &mut out);
            let mut arrived: Vec<Datagram> = out.iter().flat_map(|output| self.answers(&output.datagram)).collect();
            if self.master.sa.next_wake().is_some_and(|at| at <= self.master.now) {
                let said = self.master.feed(Input::Wake);
                arrived.extend(self.said(said));
            }
            self.hand(arrived);
        }
    }

    /// A host joins the group. It is answered when the standby knows of it.
    pub fn join(&mut self, host: usize) {
        let (lid, mad) = self.joining(host);
        self.set(lid, &mad);
    }

    /// Returns a host's LID, and its request to join the group.
    pub fn joining(&mut self, host: usize) -> (Lid, Mad) {
        use records::member as m;
        let (gid, lid) = (self.master.gid(host), self.master.host(host));
        let mut fields = vec![
            (m::MGID, Value::Gid(IPOIB)),
            (m::PORT_GID, Value::Gid(gid)),
            (m::JOIN_STATE, number(1_u8)),
        ];
        fields.extend(group_parameters());
        (lid, self.master.question(Method::Set, &records::MEMBER, &fields))
    }

    pub fn set(&mut self, lid: Lid, mad: &Mad) {
        self.ask(lid, mad);
        // No time has passed.
        let answer = self.told.pop().unwrap();
        assert_eq!(
            (answer.address.lid, answer.mad.status()),
            (lid, Status::OK),
            "{}",
            answer.mad
        );
    }

    /// A host sends a request, and the standby answers what it must.
    pub fn ask(&mut self, lid: Lid, mad: &Mad) {
        self.master.lid = lid;
        let said = self.master.send(mad);
        let arrived = self.said(said);
        self.hand(arrived);
    }

    /// Returns the milliseconds until a host that sends a request now gets its confirmation.
    pub fn ms_to_join(&mut self, host: usize) -> u64 {
        let (lid, mad) = self.joining(host);
        self.told.clear();
        self.ask(lid, &mad);
        let mut ms = 0;
        while !self
            .told
            .iter()
            .any(|to| to.address.lid == lid && to.mad.status() == Status::OK)
        {
            assert!(ms < 1_074, "longer than hosts are told that it may take");
            self.pass(1);
            ms += 1;
        }
        ms
    }

    pub fn is_all(&self) -> bool {
        self.copier.worth() == Worth::All
    }

    pub fn members(&self) -> usize {
        self.copy.counts().1
    }

    /// Checks that an administrator with the copy gives the same answers as the master.
    pub fn check_same(&mut self) {
        let text = |of: &Registrations| of.to_text();
        let mut other = Sa::new(Config::default());
        other.handle(
            self.master.now,
            Input::Copied(Box::new(self.copy.clone())),
            &mut Vec::new(),
        );
        let (ours, theirs) = (other.registrations(), self.master.sa.registrations());
        // A subscriber's LID is looked up when a report is sent. Of a membership by proxy, records show only that it is
        // one.
        let as_copied = |text: String| {
            let lines = text.lines().map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                match words[..] {
                    ["subscription", guid, _, qp, _, wanted] => format!("{guid} {qp} {wanted}"),
                    ["member", .., "proxy", _] => words[..words.len() - 1].join(" "),
                    _ => line.to_owned(),
                }
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(as_copied(text(&ours)), as_copied(text(&theirs)));
    }
}
