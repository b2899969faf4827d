//! What happened in a world, line by line. One seed gives one journal, to the byte.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

#[derive(Debug, Default)]
pub struct Journal(Mutex<String>);

impl Journal {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `who` is an actor, `what` one line of text.
    pub fn write(&self, at: Timestamp, who: &str, what: &str) {
        let line = format!("{at:.3} {who}: {what}\n");
        self.lock().push_str(&line);
    }

    pub fn text(&self) -> String {
        self.lock().clone()
    }

    /// The last lines, for a failure's report.
    pub fn tail(&self, lines: usize) -> String {
        let text = self.lock();
        let start = text.lines().count().saturating_sub(lines);
        text.split_inclusive('\n').skip(start).collect()
    }
}
