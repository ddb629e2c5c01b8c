//! Automatic path migration: which path a connection uses, and when it changes to the other one.
//!
//! ```text
//!              program: REARM              packet with MigReq 0 on the primary path
//!   MIGRATED ───────────────────► REARM ─────────────────────────────────────────► ARMED
//!      ▲                            │ packet with MigReq 1 on the alternate path     │
//!      └────────────────────────────┴───────────────────────────────────────────────┘
//!                                      program: MIGRATED; retries used up; port down;
//!                                      packet with MigReq 1 on the alternate path
//! ```
//!
//! Every packet of a connection shows MigReq 1 in MIGRATED and 0 otherwise. So each end learns from the other's
//! packets, requests and responses alike, and an idle connection stays in REARM. After a migration the alternate path
//! is spent: the program loads another one before it asks for REARM again. Source: IBA vol 1 §17.2.8.
//!
//! Where the standard leaves a choice:
//! - An end in REARM follows a packet with MigReq 1 that arrives on its alternate path and cannot have come by the
//!   primary one: the other end was armed by a packet of ours and has migrated since. Without this rule the ends would
//!   use different paths.
//! - Packets that were under way on the former path are accepted after a migration; the standard allows to drop them.
//! - REARM without an alternate path that differs from the primary is refused (IBA leaves stale paths to programs).
//! - REARM in ARMED is accepted if a new alternate path comes with it, as programs need when an alternate path has
//!   died.

use selvedge_types::Lid;

use crate::attr::{Path, PathState, QpState};
use crate::error::VerbsError;
use crate::port::Port;

/// How the path of an arriving packet is compared with those of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathCheck {
    /// Port, source LID and destination LID. Both ends then need mirrored paths, path bits included. Source: IBA vol 1
    /// §9.6.1.4.
    #[default]
    Strict,
    /// The port only.
    Port,
}

/// Where a packet arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub port: u8,
    pub slid: Lid,
    pub dlid: Lid,
    pub mig_req: bool,
}

/// What the machine reads and never changes.
#[derive(Clone, Copy)]
pub(crate) struct PathCtx<'a> {
    pub ports: &'a [Port],
    pub check: PathCheck,
}

impl PathCtx<'_> {
    fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number).checked_sub(1)?)
    }

    /// True if packets can leave by the path.
    fn is_usable(&self, path: &Path) -> bool {
        let port = self.port(path.port);
        port.is_some_and(|port| port.is_active() && port.pkey(path.pkey_index).is_some())
    }

    fn fits(&self, path: &Path, arrival: &Arrival) -> bool {
        if path.port != arrival.port {
            return false;
        }
        match self.check {
            PathCheck::Port => true,
            PathCheck::Strict => {
                let source = self.port(path.port).map(|port| port.source(path.ah.src_path_bits));
                path.ah.dlid == arrival.slid && source == Some(arrival.dlid)
            }
        }
    }
}

/// What happens to the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In {
    /// The queue pair was reset.
    Reset,
    /// The program has set the primary path.
    Primary(Path),
    /// The program has loaded an alternate path.
    Alternate(Path),
    /// The program asks for a state; [`PathMachine::check_request`] has allowed it.
    Request(PathState),
    /// A packet of the connection has arrived.
    Arrived(Arrival),
    /// Retries are used up, or the port of the primary path has left ACTIVE.
    Failed,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// The packet is handled; of other inputs: nothing follows.
    Accept,
    /// The packet is dropped.
    Drop,
    /// The connection is ARMED; the packet is handled.
    Armed,
    /// The former alternate path is in use; the packet is handled.
    Migrated,
    /// The alternate path cannot be used; the packet is dropped. PATH_MIG_ERR is due if this is the first time since
    /// the alternate path was loaded.
    Refused {
        /// True if the event is due.
        report: bool,
    },
}

/// Paths and path migration state of a queue pair.
#[derive(Clone, Debug)]
pub(crate) struct PathMachine {
    state: PathState,
    primary: Path,
    /// As the program loaded it, or the primary path after a migration.
    alternate: Path,
    /// True if the alternate path was loaded after the last migration.
    fresh: bool,
    former: Option<Path>,
    reported: bool,
}

impl PathMachine {
    pub const fn new(initial: Path) -> Self {
        Self {
            state: PathState::Migrated,
            primary: initial,
            alternate: initial,
            fresh: false,
            former: None,
            reported: false,
        }
    }

    /// Fails if the program may not ask for a state.
    ///
    /// `alternate` is the path that comes with the request, `after` the state of the queue pair after the change.
    pub fn check_request(
        &self,
        wanted: PathState,
        primary: &Path,
        alternate: Option<&Path>,
        after: QpState,
    ) -> Result<(), VerbsError> {
        let legal = match (self.state, wanted) {
            (PathState::Migrated, PathState::Rearm) => true,
            (PathState::Armed | PathState::Rearm, PathState::Rearm) => alternate.is_some(),
            (PathState::Armed, PathState::Migrated) => after == QpState::Rts,
            (PathState::Migrated | PathState::Rearm, PathState::Migrated) | (_, PathState::Armed) => false,
        };
        if !legal {
            return Err(VerbsError::PathTransition {
                found: self.state,
                wanted,
                state: after,
            });
        }
        let is_fresh = alternate.is_some() || self.fresh;
        let alternate = alternate.unwrap_or(&self.alternate);
        if wanted == PathState::Rearm && (!is_fresh || is_same(primary, alternate)) {
            return Err(VerbsError::NoAlternate);
        }
        Ok(())
    }

    /// The only way in.
    pub fn handle(&mut self, ctx: PathCtx<'_>, input: In) -> Out {
        match input {
            In::Reset => {
                let initial = self.primary;
                *self = Self::new(initial);
                Out::Accept
            }
            In::Primary(path) => {
                self.primary = path;
                Out::Accept
            }
            In::Alternate(path) => {
                self.alternate = path;
                (self.fresh, self.reported) = (true, false);
                Out::Accept
            }
            In::Request(PathState::Migrated) => self.migrate(ctx),
            In::Request(state) => {
                self.state = state;
                Out::Accept
            }
            In::Arrived(arrival) => self.arrived(ctx, &arrival),
            In::Failed => match self.state {
                PathState::Armed => self.migrate(ctx),
                PathState::Migrated | PathState::Rearm => Out::Accept,
            },
        }
    }

    fn arrived(&mut self, ctx: PathCtx<'_>, arrival: &Arrival) -> Out {
        let primary = ctx.fits(&self.primary, arrival);
        let alternate = self.fresh && ctx.fits(&self.alternate, arrival);
        let former = self.former.is_some_and(|path| ctx.fits(&path, arrival));
        match (self.state, arrival.mig_req) {
            (PathState::Armed, true) if alternate => self.migrate(ctx),
            (PathState::Armed, true) if !former => self.refuse(),
            (PathState::Rearm, true) if alternate && !primary => self.migrate(ctx),
            (PathState::Rearm, false) if primary => {
                self.state = PathState::Armed;
                Out::Armed
            }
            _ if primary || former => Out::Accept,
            _ => Out::Drop,
        }
    }

    fn migrate(&mut self, ctx: PathCtx<'_>) -> Out {
        if !ctx.is_usable(&self.alternate) {
            return self.refuse();
        }
        self.former = Some(self.primary);
        self.primary = self.alternate;
        self.fresh = false;
        self.state = PathState::Migrated;
        Out::Migrated
    }

    const fn refuse(&mut self) -> Out {
        Out::Refused {
            report: !core::mem::replace(&mut self.reported, true),
        }
    }

    pub const fn state(&self) -> PathState {
        self.state
    }

    /// Returns the path in use.
    pub const fn in_use(&self) -> &Path {
        &self.primary
    }

    pub const fn alternate(&self) -> &Path {
        &self.alternate
    }

    /// Returns MigReq of packets sent now.
    pub const fn mig_req(&self) -> bool {
        matches!(self.state, PathState::Migrated)
    }
}

/// True if two paths use the same port, LIDs, service level and P_Key.
fn is_same(a: &Path, b: &Path) -> bool {
    (a.port, a.ah, a.pkey_index) == (b.port, b.ah, b.pkey_index)
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, LidRange, PKey, PortState};

    use super::*;
    use crate::attr::AhAttr;
    use crate::port::PortAttr;

    const PRIMARY: Path = path(1, 11);
    const ALTERNATE: Path = path(2, 12);

    const fn path(port: u8, dlid: u16) -> Path {
        Path {
            port,
            ah: AhAttr::lid(Lid(dlid)),
            pkey_index: 0,
            timeout: 14,
        }
    }

    /// Two ACTIVE ports with LIDs 1 and 2; the other end has 11 and 12.
    fn ports() -> Vec<Port> {
        (1..=2)
            .map(|lid| {
                let mut port = Port::new(Guid(u64::from(lid)));
                port.set(PortAttr {
                    state: PortState::Active,
                    lids: LidRange::single(Lid(lid)),
                    ..PortAttr::default()
                });
                port
            })
            .collect()
    }

    fn machine(state: PathState) -> PathMachine {
        PathMachine {
            state,
            primary: PRIMARY,
            alternate: ALTERNATE,
            fresh: true,
            former: Some(path(1, 99)),
            reported: false,
        }
    }

    fn on(path: &Path, mig_req: bool) -> In {
        In::Arrived(Arrival {
            port: path.port,
            slid: path.ah.dlid,
            dlid: Lid(u16::from(path.port)),
            mig_req,
        })
    }

    #[test]
    fn every_state_and_packet() {
        use PathState::{Armed, Migrated, Rearm};
        let ports = ports();
        let ctx = PathCtx {
            ports: &ports,
            check: PathCheck::Strict,
        };
        let refused = Out::Refused { report: true };
        let former = path(1, 99);
        let stranger = path(2, 77);
        // State, path of the packet, MigReq: outcome, state afterwards.
        let cases = [
            (Migrated, PRIMARY, false, Out::Accept, Migrated),
            (Migrated, PRIMARY, true, Out::Accept, Migrated),
            (Migrated, ALTERNATE, false, Out::Drop, Migrated),
            (Migrated, ALTERNATE, true, Out::Drop, Migrated),
            (Migrated, former, false, Out::Accept, Migrated),
            (Migrated, former, true, Out::Accept, Migrated),
            (Migrated, stranger, true, Out::Drop, Migrated),
            (Rearm, PRIMARY, false, Out::Armed, Armed),
            (Rearm, PRIMARY, true, Out::Accept, Rearm),
            (Rearm, ALTERNATE, false, Out::Drop, Rearm),
            (Rearm, ALTERNATE, true, Out::Migrated, Migrated),
            (Rearm, former, false, Out::Accept, Rearm),
            (Rearm, former, true, Out::Accept, Rearm),
            (Rearm, stranger, false, Out::Drop, Rearm),
            (Armed, PRIMARY, false, Out::Accept, Armed),
            (Armed, PRIMARY, true, refused, Armed),
            (Armed, ALTERNATE, false, Out::Drop, Armed),
            (Armed, ALTERNATE, true, Out::Migrated, Migrated),
            (Armed, former, false, Out::Accept, Armed),
            (Armed, former, true, Out::Accept, Armed),
            (Armed, stranger, true, refused, Armed),
        ];
        for (state, path, mig_req, want, after) in cases {
            let mut machine = machine(state);
            let out = machine.handle(ctx, on(&path, mig_req));
            assert_eq!((out, machine.state()), (want, after), "{state} {path:?} {mig_req}");
            let in_use = if out == Out::Migrated { ALTERNATE } else { PRIMARY };
            assert_eq!(*machine.in_use(), in_use, "{state} {path:?} {mig_req}");
        }
    }

    #[test]
    fn every_state_and_request() {
        use PathState::{Armed, Migrated, Rearm};
        for state in PathState::ALL {
            for wanted in PathState::ALL {
                for after in QpState::ALL {
                    for with_path in [false, true] {
                        let machine = machine(state);
                        let alternate = with_path.then_some(&ALTERNATE);
                        let found = machine.check_request(wanted, &PRIMARY, alternate, after);
                        let want = match (state, wanted) {
                            (Migrated, Rearm) => true,
                            (Rearm | Armed, Rearm) => with_path,
                            (Armed, Migrated) => after == QpState::Rts,
                            _ => false,
                        };
                        assert_eq!(found.is_ok(), want, "{state} {wanted} {after} {with_path}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_spent_or_equal_alternate_path_is_refused() {
        let ports = ports();
        let ctx = PathCtx {
            ports: &ports,
            check: PathCheck::Strict,
        };
        let mut machine = machine(PathState::Armed);
        assert_eq!(machine.handle(ctx, In::Failed), Out::Migrated);
        let rearm = |machine: &PathMachine, path: Option<&Path>| {
            machine.check_request(PathState::Rearm, machine.in_use(), path, QpState::Rts)
        };
        assert_eq!(rearm(&machine, None), Err(VerbsError::NoAlternate));
        assert_eq!(rearm(&machine, Some(&ALTERNATE)), Err(VerbsError::NoAlternate));
        assert_eq!(rearm(&machine, Some(&PRIMARY)), Ok(()));
    }

    #[test]
    fn an_alternate_path_that_cannot_be_used_is_reported_once() {
        let mut ports = ports();
        let down = PortAttr {
            lids: LidRange::single(Lid(2)),
            ..PortAttr::default()
        };
        ports[1].set(down.clone());
        let check = |ports: &[Port]| {
            let ctx = PathCtx {
                ports,
                check: PathCheck::Strict,
            };
            for input in [In::Failed, In::Request(PathState::Migrated), on(&ALTERNATE, true)] {
                let mut machine = machine(PathState::Armed);
                assert_eq!(machine.handle(ctx, input), Out::Refused { report: true });
                assert_eq!(machine.handle(ctx, input), Out::Refused { report: false });
                assert_eq!((machine.state(), *machine.in_use()), (PathState::Armed, PRIMARY));
                machine.handle(ctx, In::Alternate(ALTERNATE));
                assert_eq!(machine.handle(ctx, input), Out::Refused { report: true });
            }
        };
        check(&ports);
        ports[1].set(PortAttr {
            state: PortState::Active,
            pkeys: vec![PKey(0)],
            ..down
        });
        check(&ports);
    }

    #[test]
    fn a_lenient_check_compares_ports_only() {
        let ports = ports();
        let ctx = PathCtx {
            ports: &ports,
            check: PathCheck::Port,
        };
        let mut machine = machine(PathState::Armed);
        let packet = on(&path(2, 77), true);
        assert_eq!(machine.handle(ctx, packet), Out::Migrated);
    }
}
