//! What happens when the database is damaged or its file disappears.
//!
//! `callboard recover` uses these modules in this order:
//!
//! 1. `exclusive`: locks out every other writer and engine
//! 2. `damage`: finds out what is wrong
//! 3. `backup`: copies the damaged files, byte for byte
//! 4. `salvage`: reads what can still be read, page by page
//! 5. `replacement`: builds a new database and moves it into place
//!
//! `emergency_copy` serves a running engine whose database file was deleted.

mod backup;
mod damage;
mod emergency_copy;
mod exclusive;
mod replacement;
mod salvage;

pub use backup::{Backup, BackupError};
pub use damage::{Damage, find_damage};
pub use emergency_copy::EmergencyCopyError;
pub use exclusive::{ExclusiveAccess, ExclusiveAccessError};
pub use replacement::ReplacementDatabase;
pub use salvage::{FoundEntry, FoundRun, Salvage, SalvageError};
