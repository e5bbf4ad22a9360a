//! Ports for servers that are killed and started again.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A port that no other test takes while somebody has this, not even while nobody listens on it. Else the clients of a
/// server that is away would find another one in its place, and take its runs for their own.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    /// A name that only one process can have, given back by the kernel.
    _taken: UnixListener,
}

impl Port {
    /// One that nobody listens on, below those that the kernel gives to outgoing connections.
    pub(crate) fn take() -> Self {
        loop {
            let number = fastrand::u16(10_000..32_000);
            let name = SocketAddr::from_abstract_name(format!("callboard-test-port-{number}"));
            let taken = UnixListener::bind_addr(&name.expect("a short name"));
            if let Ok(taken) = taken
                && TcpListener::bind(("127.0.0.1", number)).is_ok()
            {
                return Self { number, _taken: taken };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Port;

    #[test]
    fn nobody_else_gets_a_port_that_is_taken() {
        let taken: Vec<_> = (0..200).map(|_| Port::take()).collect();
        let mut numbers: Vec<_> = taken.iter().map(|port| port.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), taken.len());
    }
}
