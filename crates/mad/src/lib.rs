//! Outstanding requests: window, retry, time-out, transaction ids.
//!
//! [`Exchange`] is a sans-I/O core: requests go in with a token, datagrams to send come out while the window allows,
//! and every request ends exactly once, answered or failed. Two limits: requests in flight in all, and at one agent.
//! A request that has waited longer than `stale_after` no longer counts against the first, so the time-outs of a dead
//! node never delay the others.

mod exchange;

pub use exchange::{AgentId, Counters, Ended, Exchange, ExchangeConfig, Failure, Sent};
