//! Calls as dashboards see them (AWS-237).

use std::fmt::Debug;
use std::time::Duration;

/// One request of ours, or one attempt at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// As the service calls itself, such as `EC2`.
    pub service: &'a str,
    pub operation: &'a str,
    /// Of HTTP; `None` when there was no answer.
    pub status: Option<u16>,
    pub took: Duration,
}

/// Who is told of every call.
pub trait CallObserver: Debug + Send + Sync {
    /// Whatever becomes of it: another attempt may follow.
    fn attempted(&self, call: &Call<'_>);
    /// The last attempt is over.
    fn finished(&self, call: &Call<'_>, retries: u32);
}

/// For those who do not care.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl CallObserver for Unobserved {
    fn attempted(&self, _: &Call<'_>) {}
    fn finished(&self, _: &Call<'_>, _: u32) {}
}
