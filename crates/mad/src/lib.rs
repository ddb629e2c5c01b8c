//! Outstanding requests: window, retry, time-out, transaction ids.
