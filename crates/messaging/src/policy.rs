//! Which service level and which queue pair a message takes.

use selvedge_hca::Transport;
use selvedge_types::Sl;

use crate::error::MessagingError;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the library about others: a request to send, or its answer.
    Control,
    /// Payload of the program.
    Data,
}

/// Classes by the size of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Service level of control messages.
    pub control: Sl,
    /// Largest size of each class in bytes, ascending, with its service level: 1 to 3 thresholds from 1 to 8 KB.
    pub classes: Vec<(u32, Sl)>,
    /// Service level of longer messages.
    pub rest: Sl,
}

/// One of the schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// All messages of a job have one service level.
    Job(Sl),
    /// Classes by size, inside a job.
    Sizes(Sizes),
    /// Queue pairs take turns, with service levels in turn.
    Turns {
        /// Queue pairs to each peer, 1–8. With UD there is one, and service levels take turns.
        queue_pairs: u8,
        /// Their service levels, 1–8, in turn.
        levels: Vec<Sl>,
    },
}

/// A scheme over a transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    scheme: Scheme,
    transport: Transport,
}

/// How many messages have taken their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u32);

/// What a message takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Place in [`Policy::queue_pairs`].
    pub queue_pair: usize,
    /// Service level.
    pub sl: Sl,
}

/// Smallest and largest threshold, in bytes. Source: the paper, section 5.3.
const THRESHOLDS: std::ops::RangeInclusive<u32> = 1_024..=8_192;

impl Policy {
    /// Checks a scheme.
    pub fn new(scheme: Scheme, transport: Transport) -> Result<Self, MessagingError> {
        if transport == Transport::Uc {
            return Err(MessagingError::Transport { transport });
        }
        match &scheme {
            Scheme::Job(_) => {}
            Scheme::Sizes(sizes) => {
                let found = sizes.classes.len();
                if !(1..=3).contains(&found) {
                    return Err(MessagingError::Thresholds { found });
                }
                let mut before = 0;
                for &(found, _) in &sizes.classes {
                    if !THRESHOLDS.contains(&found) || found <= before {
                        return Err(MessagingError::Threshold { found, before });
                    }
                    before = found;
                }
            }
            Scheme::Turns { queue_pairs, levels } => {
                if !(1..=8).contains(queue_pairs) || !(1..=8).contains(&levels.len()) {
                    let (queue_pairs, levels) = (*queue_pairs, levels.len());
                    return Err(MessagingError::Turns { queue_pairs, levels });
                }
            }
        }
        Ok(Self { scheme, transport })
    }

    /// Returns the transport.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the service levels of messages, each once.
    #[must_use]
    pub fn levels(&self) -> Vec<Sl> {
        let mut levels = Vec::new();
        let mut add = |sl: Sl| {
            if !levels.contains(&sl) {
                levels.push(sl);
            }
        };
        match &self.scheme {
            Scheme::Job(sl) => add(*sl),
            Scheme::Sizes(sizes) => {
                add(sizes.control);
                sizes.classes.iter().for_each(|(_, sl)| add(*sl));
                add(sizes.rest);
            }
            Scheme::Turns { levels, .. } => levels.iter().copied().for_each(add),
        }
        levels
    }

    /// Returns the service level of each queue pair to a peer. With UD there is one for all peers, and its level is
    /// only that of the first message.
    #[must_use]
    pub fn queue_pairs(&self) -> Vec<Sl> {
        let levels = self.levels();
        match (&self.scheme, self.transport) {
            (_, Transport::Ud) => levels[..1].to_vec(),
            (Scheme::Turns { queue_pairs, levels }, _) => {
                levels.iter().copied().cycle().take(usize::from(*queue_pairs)).collect()
            }
            (Scheme::Job(_) | Scheme::Sizes(_), _) => levels,
        }
    }

    /// Returns what a message of this many bytes takes.
    pub fn choose(&self, turn: &mut Turn, kind: Kind, bytes: u32) -> Choice {
        let queue_pairs = self.queue_pairs();
        let of = |sl: Sl| Choice {
            queue_pair: queue_pairs.iter().position(|own| *own == sl).unwrap_or(0),
            sl,
        };
        match &self.scheme {
            Scheme::Job(sl) => of(*sl),
            Scheme::Sizes(sizes) => of(match kind {
                Kind::Control => sizes.control,
                Kind::Data => {
                    let class = sizes.classes.iter().find(|(most, _)| bytes <= *most);
                    class.map_or(sizes.rest, |(_, sl)| *sl)
                }
            }),
            Scheme::Turns { levels, .. } => {
                let next = turn.0 as usize;
                turn.0 = turn.0.wrapping_add(1);
                Choice {
                    queue_pair: next % queue_pairs.len(),
                    sl: match self.transport {
                        Transport::Ud => levels[next % levels.len()],
                        Transport::Rc | Transport::Uc => queue_pairs[next % queue_pairs.len()],
                    },
                }
            }
        }
    }

    /// True if long messages are sent in pieces, so that queue pairs carry them together.
    #[must_use]
    pub const fn has_turns(&self) -> bool {
        matches!(self.scheme, Scheme::Turns { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sl(level: u8) -> Sl {
        Sl::new(level).unwrap()
    }

    fn sizes(classes: &[(u32, u8)]) -> Scheme {
        Scheme::Sizes(Sizes {
            control: sl(7),
            classes: classes.iter().map(|&(most, level)| (most, sl(level))).collect(),
            rest: sl(0),
        })
    }

    fn turns(queue_pairs: u8, levels: u8) -> Scheme {
        Scheme::Turns {
            queue_pairs,
            levels: (0..levels).map(sl).collect(),
        }
    }

    #[test]
    fn messages_take_the_class_of_their_size_and_control_messages_their_own() {
        let policy = Policy::new(sizes(&[(1_024, 3), (2_048, 2), (8_192, 1)]), Transport::Rc).unwrap();
        let levels: Vec<u8> = policy.queue_pairs().into_iter().map(Sl::get).collect();
        assert_eq!(levels, [7, 3, 2, 1, 0]);
        let mut turn = Turn::default();
        let mut check = |kind, bytes, queue_pair, level| {
            let want = Choice {
                queue_pair,
                sl: sl(level),
            };
            assert_eq!(policy.choose(&mut turn, kind, bytes), want, "{kind:?} {bytes}");
        };
        check(Kind::Control, 64, 0, 7);
        check(Kind::Data, 1, 1, 3);
        check(Kind::Data, 1_024, 1, 3);
        check(Kind::Data, 1_025, 2, 2);
        check(Kind::Data, 8_192, 3, 1);
        check(Kind::Data, 8_193, 4, 0);
    }

    #[test]
    fn classes_of_one_level_share_a_queue_pair() {
        let policy = Policy::new(sizes(&[(1_024, 7)]), Transport::Rc).unwrap();
        assert_eq!(policy.queue_pairs(), [sl(7), sl(0)]);
        let job = Policy::new(Scheme::Job(sl(4)), Transport::Rc).unwrap();
        assert_eq!(job.queue_pairs(), [sl(4)]);
    }

    #[test]
    fn queue_pairs_and_levels_take_turns() {
        let chosen = |scheme, transport| -> Vec<(usize, u8)> {
            let policy = Policy::new(scheme, transport).unwrap();
            let mut turn = Turn::default();
            let next = (0..5).map(|_| policy.choose(&mut turn, Kind::Data, 1));
            next.map(|choice| (choice.queue_pair, choice.sl.get())).collect()
        };
        let rc = Transport::Rc;
        assert_eq!(chosen(turns(4, 1), rc), [(0, 0), (1, 0), (2, 0), (3, 0), (0, 0)]);
        assert_eq!(chosen(turns(4, 2), rc), [(0, 0), (1, 1), (2, 0), (3, 1), (0, 0)]);
        // One queue pair for all peers: the level is the message's.
        assert_eq!(
            chosen(turns(4, 4), Transport::Ud),
            [(0, 0), (0, 1), (0, 2), (0, 3), (0, 0)]
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let check = |scheme, transport, want: &str| {
            let error = Policy::new(scheme, transport).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        };
        let rc = Transport::Rc;
        check(sizes(&[]), rc, "SLV-MESSAGING-0001");
        check(sizes(&[(1_024, 1); 4]), rc, "SLV-MESSAGING-0001");
        check(sizes(&[(1_023, 1)]), rc, "SLV-MESSAGING-0002");
        check(sizes(&[(8_193, 1)]), rc, "SLV-MESSAGING-0002");
        check(sizes(&[(2_048, 1), (2_048, 2)]), rc, "SLV-MESSAGING-0002");
        check(turns(0, 1), rc, "SLV-MESSAGING-0003");
        check(turns(9, 1), rc, "SLV-MESSAGING-0003");
        check(turns(1, 0), rc, "SLV-MESSAGING-0003");
        check(turns(1, 1), Transport::Uc, "SLV-MESSAGING-0004");
    }
}
