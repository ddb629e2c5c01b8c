//! Management agents over a chassis: a deterministic fabric without I/O.
