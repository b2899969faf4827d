//! What AWS says will happen to instances, and what is done about it (§6.1, §6.2).

pub mod messages;
pub mod reactions;
pub mod status;

#[cfg(test)]
mod tests;
