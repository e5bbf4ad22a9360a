//! `CALLBOARD_JOBS`, `CALLBOARD_MAX_ATTEMPTS`, `CALLBOARD_BACKOFF`, `CALLBOARD_STORE`, and the variables of NATS.
//!
//! Other `CALLBOARD_` variables are no settings. Most mark attempts, and a `callboard` started by an agent inherits them.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::steps::load::parse_duration;

use super::error::{ConfigError, ErrorLocation};
use super::store::{StoreAddress, address_hint, read_environment};
use super::{Layer, Origin, Sourced};

pub(super) fn read(env: &[(OsString, OsString)], errors: &mut Vec<ConfigError>) -> Layer {
    // An empty variable counts as unset.
    let get = |wanted: &'static str| {
        env.iter()
            .find(|(name, value)| name == wanted && !value.is_empty())
            .map(|(_, value)| value.as_os_str())
    };
    let mut number = |name| get(name).and_then(|value| positive(name, value, errors));
    let (jobs, max_attempts) = (number("CALLBOARD_JOBS"), number("CALLBOARD_MAX_ATTEMPTS"));
    let backoff = "CALLBOARD_BACKOFF";
    let backoff = get(backoff).and_then(|value| duration(backoff, value, errors));
    let store = "CALLBOARD_STORE";
    let address = get(store).and_then(|text| match StoreAddress::read(text) {
        Ok(address) => Some(Sourced::new(address, Origin::Environment(store))),
        Err(error) => {
            let hint = Some(address_hint(&error).to_owned());
            let location = ErrorLocation::Environment(store);
            errors.push(ConfigError { location, message: error.to_string(), hint });
            None
        }
    });
    Layer { jobs, max_attempts, backoff, store: address, nats: read_environment(get), ..Layer::default() }
}

fn positive(name: &'static str, value: &OsStr, errors: &mut Vec<ConfigError>) -> Option<Sourced<NonZeroU32>> {
    let number = value.to_str().and_then(|text| text.parse::<NonZeroU32>().ok());
    if number.is_none() {
        let message = format!("`{}` is not a whole number from 1", value.to_string_lossy());
        errors.push(ConfigError { location: ErrorLocation::Environment(name), message, hint: None });
    }
    number.map(|number| Sourced::new(number, Origin::Environment(name)))
}

fn duration(name: &'static str, value: &OsStr, errors: &mut Vec<ConfigError>) -> Option<Sourced<Duration>> {
    match parse_duration(&value.to_string_lossy()) {
        Ok(duration) => Some(Sourced::new(duration, Origin::Environment(name))),
        Err(error) => {
            let location = ErrorLocation::Environment(name);
            errors.push(ConfigError { location, message: error.to_string(), hint: None });
            None
        }
    }
}
