//! How long we put up with a server: two budgets, for a lost race and for an outage, and none of them endless.

use std::time::{Duration, Instant};

use super::fault::Fault;
use crate::error::Unavailable;

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the answer to one question.
    pub answer: Duration,
    /// For a race with others over one subject.
    pub conflict: Duration,
    /// For servers that do not answer, or have no leader. The crash of one takes 4 to 9 seconds.
    pub outage: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            conflict: Duration::from_millis(1300),
            outage: Duration::from_secs(60),
        }
    }
}

/// The first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is left of a budget. It is spent from the first fault on.
#[derive(Debug)]
pub(super) struct Budget {
    server: String,
    doing: &'static str,
    length: Duration,
    end: Option<Instant>,
    pause: Duration,
}

impl Budget {
    pub(super) fn new(server: &str, doing: &'static str, length: Duration) -> Self {
        Self { server: server.to_owned(), doing, length, end: None, pause: FIRST_PAUSE }
    }

    /// Waits a little after a fault that may pass, each time longer; gives up when it will not pass, or not in time.
    pub(super) async fn bear(&mut self, fault: Fault) -> Result<(), Unavailable> {
        let source = match fault {
            Fault::Passing(source) | Fault::Unanswered(source) | Fault::Sequence(source) => source,
            Fault::Gone { stream } => {
                return Err(Unavailable::NoStream { server: self.server.clone(), stream });
            }
            Fault::Replaced => return Err(Unavailable::OtherStore { server: self.server.clone() }),
            Fault::Lasting(source) => return Err(self.spent(source)),
        };
        let now = Instant::now();
        if now >= *self.end.get_or_insert(now + self.length) {
            return Err(self.spent(source));
        }
        // Half of it by chance, so that those who met once do not meet again.
        tokio::time::sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }

    fn spent(&self, source: Box<dyn std::error::Error + Send + Sync>) -> Unavailable {
        Unavailable::Server { server: self.server.clone(), doing: self.doing, source }
    }
}
