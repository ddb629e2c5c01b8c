//! Outstanding requests: window, retry, time-out, transaction ids; messages of several datagrams (see [`rmpp`]).
//!
//! [`Exchange`] is a sans-I/O core. It takes requests with a token and returns datagrams to send while the window
//! allows. Every request ends exactly once, answered or failed. Two numbers are limited: requests in flight to all
//! agents together, and requests in flight to one agent. A request that has waited longer than `stale_after` no longer
//! counts against the first limit, so the time-outs of a dead node do not delay requests to other nodes.
//!
//! ```
//! use std::time::Duration;
//! use selvedge_mad::{AgentId, Exchange, ExchangeConfig};
//! use selvedge_sim::Time;
//! use selvedge_wire::{Address, AttributeId, Datagram, DirectedRoute, Mad, Method};
//!
//! let mut exchange = Exchange::new(ExchangeConfig {
//!     window: 32,
//!     agent_window: 2,
//!     timeout: Duration::from_millis(200),
//!     retries: 3,
//!     stale_after: Duration::from_millis(20),
//! });
//! let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &DirectedRoute::LOCAL);
//! let request = Datagram { address: Address::DIRECTED, mad };
//! exchange.submit(AgentId(0), "NodeInfo of the peer");
//! let sent = exchange.next_to_send(Time::ZERO, |_, place| *place = request).expect("the window is open");
//! let mut answer = sent.datagram.mad;
//! answer.set_method(Method::GetResp);
//! assert_eq!(exchange.received(&answer), Some("NodeInfo of the peer"));
//! ```

mod exchange;
pub mod rmpp;

pub use exchange::{AgentId, Counters, Exchange, ExchangeConfig, Sent};
