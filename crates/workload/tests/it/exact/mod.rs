//! Simulations with a known result, each with a tolerance that can fail. Source of the numbers: the comments beside
//! them. Conservation of packets and credits is checked several times in each.
mod arbitration;
mod deadlock;
mod faults;
mod intents;
mod programs;
mod qps;
mod rates;
mod saturation;
mod support;
mod trees;
