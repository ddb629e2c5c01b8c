//! Alarms: faults that counters, links and congestion show. Each alarm is one record, with its evidence and with what
//! clears it.
//!
//! [`AlarmBook`] is a core: growth of counters, states of links, estimates of bit errors and congestion go in, alarms
//! that began, rose or cleared come out. An alarm begins at a threshold. It clears only below a lower threshold, and
//! not before its time to live has passed since the last evidence. [`AlarmBook::facts`] returns the alarms that are
//! conditions for `health`, which alone decides how they change the verdict.

mod book;
mod feed;
mod record;
mod rules;
mod sums;

pub use book::{AlarmBook, AlarmIn, AlarmNews};
pub use record::{Ack, Alarm, AlarmId, Ended, Level, Subject};
pub use rules::{AlarmRules, CounterRule};
