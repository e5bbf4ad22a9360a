//! Several machines that share runs: the real binary under two hosts' names, on a real NATS server.

mod abandoning;
mod fixture;
mod output;
mod repositories;
mod taking_over;
