//! Alarms: what counters, links and congestion show that an operator should know, each as one record with its evidence
//! and what clears it.
//!
//! [`AlarmBook`] is a core: growth of counters, states of links, estimates of bit errors and congestion go in, alarms
//! that began, rose or cleared come out. An alarm begins at a threshold and clears only below a lower one, and not
//! before its time to live has passed since the last evidence. [`AlarmBook::facts`] hands what is worth a condition to
//! `health`, which alone decides what the verdict makes of it.

mod book;
mod feed;
mod record;
mod rules;
mod sums;

pub use book::{AlarmBook, AlarmIn, AlarmNews};
pub use record::{Ack, Alarm, AlarmId, Ended, Level, Subject};
pub use rules::{AlarmRules, CounterRule};
