//! The body of the fuzz target: any bytes as a dialogue with an administrator. Tests run it over the stored corpus.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use selvedge_sa::{Config, Input, Output, Registrations, Sa, Snapshot};
use selvedge_sim::Time;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::sa::{Rmpp, RmppFlags, RmppKind, RmppStatus, records};
use selvedge_wire::{Address, Class, Datagram, Gid, MAD_LEN, Mad, Method};

use super::Wish;

/// Eight hosts behind four leaves.
const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";
/// Most datagrams caused by one input: a window for each possible transfer, and reports to the few subscribers of such
/// a dialogue.
const OUTPUTS_MAX: usize = 10_000;
/// Methods of requests: all that exist, and one that does not.
pub const METHODS: [u8; 8] = [0x01, 0x02, 0x12, 0x14, 0x15, 0x81, 0x05, 0x7B];

/// Returns two snapshots, which are made once: of the whole fabric, and of the fabric without two hosts.
fn snapshots() -> &'static [Arc<Snapshot>; 2] {
    static MADE: OnceLock<[Arc<Snapshot>; 2]> = OnceLock::new();
    MADE.get_or_init(|| {
        let whole = Wish {
            guid_cap: 12,
            ..Wish::new(TREE)
        };
        let gone = Wish {
            gone: vec![1, 4],
            generation: 2,
            ..whole.clone()
        };
        [whole.snapshot(), gone.snapshot()]
    })
}

/// The rest of the input; missing bytes read as 0.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn fill<const N: usize>(&mut self, used: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.iter_mut().take(used).for_each(|byte| *byte = self.u8());
        bytes
    }
}

/// A dialogue. Its earlier messages determine the checks.
struct Conversation {
    sa: Sa,
    now: Time,
    out: Vec<Output>,
    received: u64,
    /// The last datagram that was answered with a segment.
    segment: Option<Datagram>,
}

/// Takes any bytes as a dialogue: requests of every record, segments and acknowledgements, raw datagrams, traps, other
/// plans, time.
///
/// Checked: nothing panics; a permitted request is answered, or counted as dropped; no answer shows a key; the
/// administrator comes to rest; registrations survive being written and read.
pub fn converse(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let config = Config {
        rate_per_s: 1_000,
        burst: 64,
        transfers_per_client: 2,
        transfers: 4,
        services_per_client: 2,
        subscriptions_per_client: 2,
        groups: 4,
        groups_per_client: 3,
        window: 1 + u32::from(bytes.u8() % 64),
        ..Config::default()
    };
    let mut talk = Conversation {
        sa: Sa::new(config.clone()),
        now: Time::ZERO,
        out: Vec::new(),
        received: 0,
        segment: None,
    };
    talk.feed(Input::Serve);
    talk.feed(Input::Committed(Arc::clone(&snapshots()[0])));
    while !bytes.0.is_empty() {
        talk.step(&mut bytes);
    }
    talk.rest();
    assert_eq!(talk.sa.counters().received, talk.received);
    let kept = talk.sa.registrations();
    let text = kept.to_text();
    // Leases are kept to the second.
    let read = Registrations::from_text(&text).map(|read| read.to_text());
    assert_eq!(read.as_ref(), Ok(&text));
    let again = Sa::with_registrations(config, Time::ZERO, kept.clone());
    assert_eq!(again.registrations().counts(), kept.counts());
}

impl Conversation {
    fn feed(&mut self, input: Input) {
        self.out.clear();
        self.sa.handle(self.now, input, &mut self.out);
        assert!(self.out.len() <= OUTPUTS_MAX, "{} datagrams", self.out.len());
        for Output { datagram, .. } in &self.out {
            let mad = &datagram.mad;
            assert_eq!((mad.class(), mad.sm_key()), (Class::SubnAdm, 0), "{mad}");
            if mad.rmpp().is_some_and(|rmpp| rmpp.kind == RmppKind::Data) {
                self.segment = Some(*datagram);
            }
        }
    }

    /// Does everything that is due at once; this must end.
    fn rest(&mut self) {
        for _ in 0..1_000 {
            if self.sa.next_wake().is_none_or(|at| at > self.now) {
                return;
            }
            self.feed(Input::Wake);
        }
        panic!("it never rests");
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.u8() & 0x0F {
            0..=8 => {
                let datagram = request(bytes);
                self.receive(datagram);
            }
            9 => {
                let (who, used) = (bytes.u8(), bytes.u8());
                let mut raw = bytes.fill::<MAD_LEN>(usize::from(used) + 1);
                // Nothing of another class comes here.
                raw[1] = Class::SubnAdm.code();
                self.receive(from(who, Mad::from_bytes(raw)));
            }
            10 => {
                self.now += Duration::from_millis(u64::from(bytes.u8()) * 16);
                self.rest();
            }
            11 => self.rest(),
            12 => {
                let used = usize::from(bytes.u8());
                let mad = Mad::from_bytes(bytes.fill::<MAD_LEN>(used + 1));
                self.feed(Input::Trap(from(1, mad)));
            }
            13 => self.feed(match bytes.u8() % 6 {
                0 => Input::Withdraw,
                1 => Input::Forget,
                2 => Input::Serve,
                3 => Input::Committed(Arc::clone(&snapshots()[1])),
                _ => Input::Committed(Arc::clone(&snapshots()[0])),
            }),
            // Acknowledges or refuses the last segment.
            14 => self.acknowledge(bytes, true),
            _ => self.acknowledge(bytes, false),
        }
    }

    fn acknowledge(&mut self, bytes: &mut Bytes<'_>, is_right: bool) {
        let Some(mut datagram) = self.segment else { return };
        let Some(rmpp) = datagram.mad.rmpp() else { return };
        let window = u32::from(bytes.u8());
        let say = if is_right {
            Rmpp::ack(rmpp.segment, rmpp.segment.saturating_add(window))
        } else {
            let (segment, last) = (u32::from_be_bytes(bytes.fill(4)), u32::from_be_bytes(bytes.fill(4)));
            let mut say = Rmpp::ack(segment, last);
            say.kind = RmppKind::from_code(bytes.u8());
            say.status = RmppStatus(bytes.u8());
            say
        };
        let asked = Method::from_code(datagram.mad.method().code() & 0x7F);
        datagram.mad.set_method(asked);
        datagram.mad.set_rmpp(Some(say));
        self.receive(datagram);
    }

    fn receive(&mut self, datagram: Datagram) {
        let before = self.sa.counters();
        self.feed(Input::Received(datagram));
        self.received += 1;
        let now = self.sa.counters();
        let mad = &datagram.mad;
        let mine = |output: &Output| {
            let answer = &output.datagram;
            answer.address == datagram.address && answer.mad.transaction() == mad.transaction()
        };
        let is_answered = self.out.iter().any(mine);
        let is_counted = now.dropped > before.dropped;
        let is_question = mad.rmpp().is_none() && !mad.method().is_response();
        // An answer in progress is sent when it is complete, also to a repeated request.
        let is_under_way = self.sa.next_wake().is_some();
        // The only request that is held back on purpose, until something is registered. Requests held back are known by
        // number.
        let is_held = mad.attribute() == records::REVISION.id && (1..=32).contains(&self.sa.watchers());
        assert!(
            !is_question || is_answered || is_counted || is_under_way || is_held,
            "neither answered nor counted: {mad}"
        );
    }
}

fn from(who: u8, mad: Mad) -> Datagram {
    // Hosts and switches of the tree, and one LID without an owner.
    let address = Address::gsi(Lid(u16::from(who % 16)), Sl::default());
    Datagram { address, mad }
}

/// Returns a well-formed request: client, method, record, key, and values of its fields.
fn request(bytes: &mut Bytes<'_>) -> Datagram {
    let [who, method, record, key, shape] = [(); 5].map(|()| bytes.u8());
    let layout = records::ALL[usize::from(record) % records::ALL.len()];
    let method = Method::from_code(METHODS[usize::from(method) % METHODS.len()]);
    let mut mad = Mad::request(Class::SubnAdm, method, layout.id, u32::from(shape >> 6 & 1));
    mad.set_transaction(TransactionId(u64::from(shape >> 4 & 3)));
    mad.set_sm_key([0, 1, 1, 7][usize::from(key & 3)]);
    let mut mask = u64::from_be_bytes(bytes.fill(8));
    if shape & 1 != 0 {
        mask &= layout.components();
    }
    mad.set_component_mask(mask);
    let used = usize::from(bytes.u8());
    *mad.sa_data_mut() = bytes.fill(used);
    if shape & 2 != 0 {
        // GIDs of existing ports, which no fuzzer would find.
        let snapshot = &snapshots()[0];
        let known = |at: u8| snapshot.end(u32::from(at) % snapshot.end_count());
        for (field, at) in layout.fields.iter().filter(|f| f.bits == 128).zip(who..=u8::MAX) {
            let gid = known(at).map_or(Gid::default(), |end| snapshot.gid(end));
            field.put(mad.sa_data_mut(), &gid.0);
        }
    }
    if shape & 4 != 0 {
        let (segment, flags) = (u32::from(bytes.u8()), RmppFlags(bytes.u8() & 7));
        let length = u32::from(u16::from_be_bytes(bytes.fill(2)));
        mad.set_rmpp(Some(Rmpp::data(segment, flags, length)));
    }
    from(who, mad)
}

/// Returns the seeds of the fuzzer: every method of every record with no, one, all and too many components, from
/// untrusted and trusted clients, and dialogues of several messages.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (number, layout) in (0_u8..).zip(records::ALL) {
        let mut seed = vec![8];
        for (at, _) in (0_u8..).zip(METHODS) {
            for (mask, shape) in [(0, 0), (1, 3), (layout.components(), 3), (u64::MAX, 2)] {
                seed.extend([0, at, at, number, at ^ shape, shape | at << 4]);
                seed.extend(mask.to_be_bytes());
                seed.extend([24, 0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
                seed.extend([1, 0, 1, 0, 4, 0x12, 0x81, at]);
            }
            // A window is opened, time passes.
            seed.extend([14, 3, 10, 40]);
        }
        seeds.push((format!("record-{:#06x}.bin", layout.id.code()), seed));
    }
    // A request in two segments, and wrong words about an answer.
    let multi = records::ALL
        .iter()
        .position(|layout| layout.id == records::MULTI_PATH.id);
    let multi = multi.unwrap_or_default() as u8;
    let mut seed = vec![2];
    for (segment, flags) in [(1, 3), (2, 5), (2, 5), (3, 1)] {
        seed.extend([0, 3, 3, multi, 0, 7]);
        seed.extend(u64::MAX.to_be_bytes());
        seed.extend([4, 1, 1, 1, 1, segment, flags, 0, 220]);
    }
    seeds.push(("segments.bin".to_owned(), seed));
    let mut seed = vec![1];
    for kind in 0..=5 {
        seed.extend([0, 2, 2, 0, 1, 0]);
        seed.extend([0; 9]);
        seed.extend([15, 0, 0, 0, 0, 1, 0, 0, 0, 0, kind, 0x76, 10, 255]);
    }
    seeds.push(("windows.bin".to_owned(), seed));
    let comes_and_goes = [
        13, 3, 13, 4, 13, 0, 0, 1, 0, 0, 0, 0, 13, 2, 13, 5, 12, 64, 9, 2, 255, 13, 1, 13, 4,
    ];
    seeds.push(("plans.bin".to_owned(), comes_and_goes.to_vec()));
    seeds
}
