//! What happened in a world, line by line. One seed gives one journal, to the byte.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// More than this is kept of nobody: a life in a storm writes less than a thousandth of it, a week of a large cluster would
/// fill the memory.
const KEPT: usize = 64 << 20;

#[derive(Debug, Default)]
pub struct Journal(Mutex<String>);

/// Forgets the older half, up to the end of a line, of what is longer than this.
fn forget(text: &mut String, longest: usize) {
    if text.len() > longest
        && let Some(end) = text.bytes().skip(longest / 2).position(|byte| byte == b'\n')
    {
        text.drain(..=longest / 2 + end);
    }
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `who` is an actor, `what` one line of text.
    pub fn write(&self, at: Timestamp, who: &str, what: &str) {
        let line = format!("{at:.3} {who}: {what}\n");
        let mut text = self.lock();
        text.push_str(&line);
        forget(&mut text, KEPT);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_is_forgotten_by_lines() {
        let mut text = "one\ntwo\nthree\n".to_owned();
        forget(&mut text, 14);
        assert_eq!(text, "one\ntwo\nthree\n");
        forget(&mut text, 12);
        assert_eq!(text, "three\n");
    }
}
