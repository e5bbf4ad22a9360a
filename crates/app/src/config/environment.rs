//! `CALLBOARD_JOBS`, `CALLBOARD_MAX_ATTEMPTS`, `CALLBOARD_BACKOFF`, `CALLBOARD_STORE`, and those of NATS.
//!
//! Other variables of that prefix are not ours to judge: attempts carry several as their mark, and a `callboard`
//! started by an agent finds them here.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::steps::load::parse_duration;

use super::error::{Fault, Place};
use super::store::{StoreAddress, how_to_write, read_environment};
use super::{Layer, Origin, Sourced};

pub(super) fn read(env: &[(OsString, OsString)], faults: &mut Vec<Fault>) -> Layer {
    // An empty variable counts as unset, as it does nearly everywhere.
    let get = |wanted: &'static str| {
        env.iter()
            .find(|(name, value)| name == wanted && !value.is_empty())
            .map(|(_, value)| value.as_os_str())
    };
    let mut number = |name| get(name).and_then(|value| positive(name, value, faults));
    let (jobs, max_attempts) = (number("CALLBOARD_JOBS"), number("CALLBOARD_MAX_ATTEMPTS"));
    let backoff = "CALLBOARD_BACKOFF";
    let backoff = get(backoff).and_then(|value| length(backoff, value, faults));
    let store = "CALLBOARD_STORE";
    let place = get(store).and_then(|text| match StoreAddress::read(text) {
        Ok(place) => Some(Sourced::new(place, Origin::Environment(store))),
        Err(error) => {
            let hint = Some(how_to_write(&error).to_owned());
            faults.push(Fault { place: Place::Environment(store), message: error.to_string(), hint });
            None
        }
    });
    Layer { jobs, max_attempts, backoff, store: place, shared: read_environment(get), ..Layer::default() }
}

fn positive(name: &'static str, value: &OsStr, faults: &mut Vec<Fault>) -> Option<Sourced<NonZeroU32>> {
    let number = value.to_str().and_then(|text| text.parse::<NonZeroU32>().ok());
    if number.is_none() {
        let message = format!("`{}` is not a whole number from 1", value.to_string_lossy());
        faults.push(Fault { place: Place::Environment(name), message, hint: None });
    }
    number.map(|number| Sourced::new(number, Origin::Environment(name)))
}

fn length(name: &'static str, value: &OsStr, faults: &mut Vec<Fault>) -> Option<Sourced<Duration>> {
    match parse_duration(&value.to_string_lossy()) {
        Ok(length) => Some(Sourced::new(length, Origin::Environment(name))),
        Err(error) => {
            faults.push(Fault { place: Place::Environment(name), message: error.to_string(), hint: None });
            None
        }
    }
}
