//! Checks against real peers, over the wire only.
