//! What an error of the client or the server means for a request.
//!
//! The server's error code decides. It is looked up in the chain of causes, because the client's error kinds do not
//! cover all codes.

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
use tokio::time::error::Elapsed;

/// A request that failed.
#[derive(Debug)]
pub(in crate::nats) enum RequestFailure {
    /// Compare-and-set failed: another client wrote to the subject, or is writing to it.
    WrongSequence(BoxError),
    /// Nothing was written, and a retry may succeed: no leader, no connection, a full queue.
    Temporary(BoxError),
    /// No answer came: the request may have been performed, or may still be.
    Unanswered(BoxError),
    /// Nothing was written, and a retry will fail as well.
    Permanent(BoxError),
    /// The stream was deleted.
    StreamDeleted { stream: String },
    /// The server has another store now.
    StoreReplaced,
}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// "wrong last sequence", with the sequence, and without it while another write to that subject is in flight.
const WRONG_SEQUENCE: [u64; 2] = [10071, 10164];
pub(super) const NO_STREAM: u64 = 10059;
/// The cluster has fewer servers than the requested replicas, or the server is not clustered.
pub(super) const TOO_MANY_REPLICAS: [u64; 2] = [10005, 10074];
/// Message too large, account limits, storage limits, memory or disk full, stream full or sealed, message cannot be
/// deleted.
const PERMANENT: [u64; 9] = [10054, 10002, 10023, 10028, 10047, 10077, 10109, 10122, 10057];

/// Returns the server's error code, found among the causes or inside an error kind.
pub(super) fn error_code(error: &(dyn Error + 'static)) -> Option<u64> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(server_error) = server_error(error) {
            return Some(server_error.error_code().0);
        }
        next = error.source();
    }
    None
}

/// Returns the error that the server answered with, if this error is or contains one.
fn server_error(error: &(dyn Error + 'static)) -> Option<jetstream::Error> {
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

impl RequestFailure {
    /// Classifies a write that was not acknowledged.
    pub(super) fn from_publish(error: PublishError, stream: &str) -> Self {
        match (error_code(&error), error.kind()) {
            (Some(code), _) if WRONG_SEQUENCE.contains(&code) => Self::WrongSequence(error.into()),
            (Some(NO_STREAM), _) => Self::StreamDeleted { stream: stream.to_owned() },
            (Some(code), _) if PERMANENT.contains(&code) => Self::Permanent(error.into()),
            (Some(_), _) => Self::Temporary(error.into()),
            (None, PublishErrorKind::MaxPayloadExceeded) => Self::Permanent(error.into()),
            // No stream listens on the subject, or the client has not sent it: the message was not stored.
            (None, PublishErrorKind::StreamNotFound | PublishErrorKind::MaxAckPending) => {
                Self::Temporary(error.into())
            }
            (None, _) => Self::Unanswered(error.into()),
        }
    }

    /// Classifies a failed request that may be repeated: a read, or a deletion.
    pub(in crate::nats) fn from_request(error: impl Error + Send + Sync + 'static, stream: &str) -> Self {
        match error_code(&error) {
            Some(NO_STREAM) => Self::StreamDeleted { stream: stream.to_owned() },
            Some(code) if PERMANENT.contains(&code) => Self::Permanent(error.into()),
            _ => Self::Temporary(error.into()),
        }
    }

    pub(in crate::nats) fn temporary(source: impl Into<BoxError>) -> Self {
        Self::Temporary(source.into())
    }

    /// Returns the cause to report to the user.
    pub(super) fn into_source(self) -> BoxError {
        match self {
            Self::WrongSequence(source)
            | Self::Temporary(source)
            | Self::Unanswered(source)
            | Self::Permanent(source) => source,
            Self::StreamDeleted { stream } => format!("its stream `{stream}` was deleted").into(),
            Self::StoreReplaced => "it has another store now".into(),
        }
    }
}

/// The cluster has no leader now: an election is running, or too many servers are down.
const NO_LEADER: u64 = 10008;

/// An error with a plain message, and the original as its cause.
#[derive(Debug, thiserror::Error)]
enum DescribedError {
    #[error("no answer")]
    NoAnswer(#[source] BoxError),
    #[error("no leader: a majority of the servers must be up")]
    NoLeader(#[source] BoxError),
}

/// Adds a plain message to an error whose own text says little. The original stays as the cause.
pub(super) fn describe(source: BoxError) -> BoxError {
    if error_code(&*source) == Some(NO_LEADER) {
        DescribedError::NoLeader(source).into()
    } else if is_elapsed(&*source) {
        DescribedError::NoAnswer(source).into()
    } else {
        source
    }
}

fn is_elapsed(error: &(dyn Error + 'static)) -> bool {
    error.is::<Elapsed>() || error.source().is_some_and(is_elapsed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_nats::error::Error as NatsError;
    use async_nats::jetstream::context::{RequestError, RequestErrorKind};

    use super::*;

    fn publish_error(kind: PublishErrorKind, code: u64) -> PublishError {
        let answer =
            serde_json::json!({ "code": 400, "err_code": code, "description": "wrong last sequence" });
        PublishError::with_source(kind, serde_json::from_value::<jetstream::Error>(answer).unwrap())
    }

    #[test]
    fn both_error_codes_of_a_wrong_sequence_are_recognised() {
        for (kind, code) in [(PublishErrorKind::WrongLastSequence, 10071), (PublishErrorKind::Other, 10164)] {
            let failure = RequestFailure::from_publish(publish_error(kind, code), "s");
            assert!(matches!(failure, RequestFailure::WrongSequence(_)), "{failure:?}");
        }
    }

    #[test]
    fn a_timeout_leaves_the_outcome_open_and_a_refusal_does_not() {
        let failure = |error| RequestFailure::from_publish(error, "s");
        for kind in [PublishErrorKind::TimedOut, PublishErrorKind::BrokenPipe] {
            assert!(matches!(failure(PublishError::new(kind)), RequestFailure::Unanswered(_)));
        }
        let refused = failure(PublishError::new(PublishErrorKind::StreamNotFound));
        assert!(matches!(refused, RequestFailure::Temporary(_)));
        assert!(matches!(
            failure(publish_error(PublishErrorKind::Other, 10008)),
            RequestFailure::Temporary(_)
        ));
        assert!(matches!(
            failure(publish_error(PublishErrorKind::Other, 10077)),
            RequestFailure::Permanent(_)
        ));
        assert!(matches!(
            failure(publish_error(PublishErrorKind::Other, 10059)),
            RequestFailure::StreamDeleted { .. }
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_is_described_and_keeps_its_cause() {
        let elapsed = tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
        let error: RequestError = NatsError::with_source(RequestErrorKind::TimedOut, elapsed.unwrap_err());
        let source = describe(error.into());
        assert_eq!(source.to_string(), "no answer");
        assert!(source.source().unwrap().is::<RequestError>());
    }

    #[test]
    fn a_cluster_without_a_leader_is_described() {
        let answer: jetstream::Error =
            serde_json::from_str(r#"{"code": 503, "err_code": 10008, "description": "unavailable"}"#)
                .unwrap();
        assert!(describe(answer.into()).to_string().starts_with("no leader"));
        let other = describe("no connection".into());
        assert_eq!((other.to_string(), other.source().is_none()), ("no connection".to_owned(), true));
    }
}
