//! Several machines that share runs: the real binary under the names of several hosts, on a real NATS server.

mod abandoning;
mod fixture;
mod output;
mod repositories;
mod taking_over;
