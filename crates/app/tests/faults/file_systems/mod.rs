//! File systems that are full, read-only or on the network.

mod full_disk;
mod network_file_system;
mod read_only;
