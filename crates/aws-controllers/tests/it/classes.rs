//! EC2NodeClasses from their first look to their end.

mod deaths;
mod ending;
mod faults;
mod hashes;
mod profiles;
mod status;
mod validation;
