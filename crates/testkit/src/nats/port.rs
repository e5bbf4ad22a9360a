//! Ports for servers that are killed and restarted.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A port that is reserved even while no server listens on it. Otherwise another test's server could take it, and
/// clients of the killed server would find that one instead.
#[derive(Debug)]
pub struct Port {
    pub number: u16,
    /// An abstract socket name, which only one process can have and the kernel releases.
    _taken: UnixListener,
}

impl Port {
    /// Reserves a port below the range that the kernel uses for outgoing connections.
    pub fn take() -> Self {
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
