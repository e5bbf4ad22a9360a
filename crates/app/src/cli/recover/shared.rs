//! A store on NATS: its servers keep it sound or not at all, so here it is only checked.

use super::account::Account;
use super::{Arguments, sound};
use crate::failure::{Code, Exit, Failure};
use crate::here::Here;

/// Verifies every run, and mends the files that show them.
pub(super) async fn check(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut told = Account::new(here, arguments);
    let flaws = sound::check(here, arguments.dry_run, &mut told).await?;
    if flaws == 0 {
        return Ok(told.tell());
    }
    let what = format!("{flaws} of the runs at `{}` do not add up", here.store_name());
    let failure = Failure::new(Exit::Store, what).code(Code::Damaged);
    let failure = told.damage.into_iter().fold(failure, |mut failure, damage| {
        failure.causes.push(damage);
        failure
    });
    Err(failure.hint("nothing was changed; bring the streams back from a copy (`nats stream restore`)"))
}
