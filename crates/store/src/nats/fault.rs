//! What an answer of the server means for us, found by the code in the chain of its sources: the client's own kinds do
//! not know all of them.

use std::error::Error;

use async_nats::jetstream;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, PublishError,
    PublishErrorKind,
};
use async_nats::jetstream::stream::{
    ConsumerError, ConsumerErrorKind, DeleteMessageError, DeleteMessageErrorKind, LastRawMessageError,
    LastRawMessageErrorKind,
};

/// A question that was not answered as asked.
#[derive(Debug)]
pub(super) enum Fault {
    /// Compare-and-set failed: somebody wrote to the subject, or is just doing so.
    Sequence(Source),
    /// Nothing was done, and later it may be: no leader, no connection, no room in a queue.
    Passing(Source),
    /// It may have been done, or may be done yet.
    Unanswered(Source),
    /// Nothing was done, and trying again will not help.
    Lasting(Source),
    /// The stream was deleted.
    Gone { stream: String },
    /// Another store is where ours was.
    Replaced,
}

pub(super) type Source = Box<dyn Error + Send + Sync>;

/// "Wrong last sequence", with the number and, while another write on that subject is under way, without it.
const WRONG_SEQUENCE: [u64; 2] = [10071, 10164];
pub(super) const NO_STREAM: u64 = 10059;
/// The cluster has not as many servers as the replicas that were asked for; a single server has none to spare.
pub(super) const TOO_MANY_REPLICAS: [u64; 2] = [10005, 10074];
/// Message too large, account limits, storage limits, memory or file full, stream full or sealed, a message that may not be
/// deleted.
const LASTING: [u64; 9] = [10054, 10002, 10023, 10028, 10047, 10077, 10109, 10122, 10057];

/// The code that the server gave, wherever in the chain it is: as a source, or inside a kind.
pub(super) fn code(error: &(dyn Error + 'static)) -> Option<u64> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(answer) = answer(error) {
            return Some(answer.error_code().0);
        }
        next = error.source();
    }
    None
}

fn answer(error: &(dyn Error + 'static)) -> Option<jetstream::Error> {
    if let Some(answer) = error.downcast_ref::<jetstream::Error>() {
        return Some(answer.clone());
    }
    if let Some(error) = error.downcast_ref::<LastRawMessageError>()
        && let LastRawMessageErrorKind::JetStream(answer) = error.kind()
    {
        return Some(answer);
    }
    if let Some(error) = error.downcast_ref::<ConsumerError>()
        && let ConsumerErrorKind::JetStream(answer) = error.kind()
    {
        return Some(answer);
    }
    if let Some(error) = error.downcast_ref::<GetStreamError>()
        && let GetStreamErrorKind::JetStream(answer) = error.kind()
    {
        return Some(answer);
    }
    if let Some(error) = error.downcast_ref::<CreateStreamError>()
        && let CreateStreamErrorKind::JetStream(answer) = error.kind()
    {
        return Some(answer);
    }
    if let Some(error) = error.downcast_ref::<DeleteMessageError>()
        && let DeleteMessageErrorKind::JetStream(answer) = error.kind()
    {
        return Some(answer);
    }
    None
}

impl Fault {
    /// What a write that was not acknowledged means.
    pub(super) fn of_write(error: PublishError, stream: &str) -> Self {
        match (code(&error), error.kind()) {
            (Some(code), _) if WRONG_SEQUENCE.contains(&code) => Self::Sequence(error.into()),
            (Some(NO_STREAM), _) => Self::Gone { stream: stream.to_owned() },
            (Some(code), _) if LASTING.contains(&code) => Self::Lasting(error.into()),
            (Some(_), _) => Self::Passing(error.into()),
            (None, PublishErrorKind::MaxPayloadExceeded) => Self::Lasting(error.into()),
            // Nobody listens on the subject: it was heard by no stream.
            (None, PublishErrorKind::StreamNotFound | PublishErrorKind::MaxAckPending) => {
                Self::Passing(error.into())
            }
            (None, _) => Self::Unanswered(error.into()),
        }
    }

    /// What a question without an answer means. To ask changes nothing, so it may always be asked again.
    pub(super) fn of_question(error: impl Error + Send + Sync + 'static, stream: &str) -> Self {
        match code(&error) {
            Some(NO_STREAM) => Self::Gone { stream: stream.to_owned() },
            Some(code) if LASTING.contains(&code) => Self::Lasting(error.into()),
            _ => Self::Passing(error.into()),
        }
    }

    pub(super) fn passing(source: impl Into<Source>) -> Self {
        Self::Passing(source.into())
    }

    /// What people are told of it.
    pub(super) fn into_source(self) -> Source {
        match self {
            Self::Sequence(source)
            | Self::Passing(source)
            | Self::Unanswered(source)
            | Self::Lasting(source) => source,
            Self::Gone { stream } => format!("its stream `{stream}` is gone").into(),
            Self::Replaced => "it has another store now".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(kind: PublishErrorKind, code: u64) -> PublishError {
        let answer =
            serde_json::json!({ "code": 400, "err_code": code, "description": "wrong last sequence" });
        PublishError::with_source(kind, serde_json::from_value::<jetstream::Error>(answer).unwrap())
    }

    #[test]
    fn both_codes_of_a_wrong_sequence_are_known_whatever_the_client_calls_them() {
        for (kind, code) in [(PublishErrorKind::WrongLastSequence, 10071), (PublishErrorKind::Other, 10164)] {
            let fault = Fault::of_write(answered(kind, code), "s");
            assert!(matches!(fault, Fault::Sequence(_)), "{fault:?}");
        }
    }

    #[test]
    fn silence_leaves_open_what_happened_and_a_refusal_does_not() {
        let fault = |error| Fault::of_write(error, "s");
        for kind in [PublishErrorKind::TimedOut, PublishErrorKind::BrokenPipe] {
            assert!(matches!(fault(PublishError::new(kind)), Fault::Unanswered(_)));
        }
        let refused = fault(PublishError::new(PublishErrorKind::StreamNotFound));
        assert!(matches!(refused, Fault::Passing(_)));
        assert!(matches!(fault(answered(PublishErrorKind::Other, 10008)), Fault::Passing(_)));
        assert!(matches!(fault(answered(PublishErrorKind::Other, 10077)), Fault::Lasting(_)));
        assert!(matches!(fault(answered(PublishErrorKind::Other, 10059)), Fault::Gone { .. }));
    }
}
