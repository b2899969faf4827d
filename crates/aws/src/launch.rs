//! From a claim to the requests that launch an instance for it, and from EC2's refusals to what they mean (§4).
//!
//! The way: [`filters`] narrow the types, [`choice`] picks capacity type and tenancy, [`templates`] says what is launched,
//! [`fleet`] where and how it is bought, [`failures`] what a refusal leads to.

pub mod choice;
pub mod failures;
pub mod filters;
pub mod fleet;
pub mod images;
mod interfaces;
pub mod readiness;
pub mod tags;
pub mod template_cache;
pub mod templates;

#[cfg(test)]
mod tests;
