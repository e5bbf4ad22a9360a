//! What people are told of a question that was not answered, where the client's own words tell them nothing. The words stay as
//! the cause.

use std::error::Error;

use tokio::time::error::Elapsed;

use super::fault::{Source, code};

/// The cluster knows of no leader, be it for a run_at or because too many of its servers are down.
const NO_LEADER: u64 = 10008;

#[derive(Debug, thiserror::Error)]
enum Plain {
    #[error("it does not answer")]
    Silent(#[source] Source),
    #[error("it has no leader: that takes more than half of its servers")]
    NoLeader(#[source] Source),
}

/// The same, in plain words if we have any.
pub(super) fn plainly(source: Source) -> Source {
    if code(&*source) == Some(NO_LEADER) {
        Plain::NoLeader(source).into()
    } else if is_elapsed(&*source) {
        Plain::Silent(source).into()
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

    use async_nats::error::Error as OfKind;
    use async_nats::jetstream::context::{RequestError, RequestErrorKind};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_took_too_long_is_told_in_plain_words_and_keeps_its_cause() {
        let elapsed = tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
        let error: RequestError = OfKind::with_source(RequestErrorKind::TimedOut, elapsed.unwrap_err());
        let source = plainly(error.into());
        assert_eq!(source.to_string(), "it does not answer");
        assert!(source.source().unwrap().is::<RequestError>());
    }

    #[test]
    fn a_cluster_without_a_leader_is_told_from_one_that_is_silent() {
        let answer: async_nats::jetstream::Error =
            serde_json::from_str(r#"{"code": 503, "err_code": 10008, "description": "unavailable"}"#)
                .unwrap();
        assert!(plainly(answer.into()).to_string().starts_with("it has no leader"));
        let other = plainly("no connection".into());
        assert_eq!((other.to_string(), other.source().is_none()), ("no connection".to_owned(), true));
    }
}
