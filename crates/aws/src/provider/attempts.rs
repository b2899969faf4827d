//! Launches that were tried for a claim, so that no claim gets two instances.
//!
//! A request to launch carries a token made of the claim's UID and the number of the attempt. A request without an answer is
//! repeated with the same token, so EC2 either carries it out now or answers as it did; one with an answer is over, and the
//! next has another token, because EC2 would only repeat the old refusal. After a restart numbers begin anew: the first
//! request then gets the first answer again, or, if it differs, EC2 says that the token has been used. In that case there may
//! be an instance which cannot be seen yet, so nothing is launched until it had the time to appear.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Long enough for EC2 to show what it has launched.
const SEEN_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Claims are given up long before (API-150); this only bounds the memory.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    number: u32,
    /// A request was sent and nobody knows what became of it.
    open: bool,
    /// Since when EC2 says that the token was used for something else.
    used_since: Option<Timestamp>,
    /// What came of it.
    instance: Option<String>,
    touched: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attempts(BTreeMap<String, Attempt>);

impl Attempts {
    fn of(&mut self, uid: &str, now: Timestamp) -> &mut Attempt {
        self.0.retain(|_, one| now.duration_since(one.touched) < KEPT);
        let new = Attempt { number: 0, open: false, used_since: None, instance: None, touched: now };
        let attempt = self.0.entry(uid.to_owned()).or_insert(new);
        attempt.touched = now;
        attempt
    }

    /// A request is about to be sent, with this token. EC2 takes 64 characters; a UID has 36.
    pub(super) fn begins(&mut self, uid: &str, now: Timestamp) -> String {
        let attempt = self.of(uid, now);
        attempt.open = true;
        let base = crate::launch::fleet::client_token(&[uid]);
        if attempt.number == 0 { base } else { format!("{base}-{}", attempt.number) }
    }

    /// EC2 has answered: whatever comes next is another request.
    pub(super) fn answered(&mut self, uid: &str, instance: Option<&str>, now: Timestamp) {
        let attempt = self.of(uid, now);
        attempt.number += 1;
        (attempt.open, attempt.used_since) = (false, None);
        attempt.instance = instance.map(ToOwned::to_owned);
    }

    /// EC2 has refused the request as a whole, so nothing was launched and the token is as good as new.
    pub(super) fn refused(&mut self, uid: &str, now: Timestamp) {
        self.of(uid, now).open = false;
    }

    /// EC2 knows the token from another request, of a former process.
    pub(super) fn token_was_used(&mut self, uid: &str, now: Timestamp) {
        let attempt = self.of(uid, now);
        let since = *attempt.used_since.get_or_insert(now);
        if now.duration_since(since) >= SEEN_AFTER {
            attempt.number += 1;
            (attempt.open, attempt.used_since) = (false, None);
        }
    }

    /// A request was sent of which nobody knows what became: an instance may be there.
    pub(super) fn is_open(&self, uid: &str) -> bool {
        self.0.get(uid).is_some_and(|attempt| attempt.open)
    }

    pub(super) fn instance(&self, uid: &str) -> Option<&str> {
        self.0.get(uid)?.instance.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A token lasts until its request was answered.
    #[test]
    fn tokens() {
        let mut attempts = Attempts::default();
        assert!(!attempts.is_open("uid"));
        assert_eq!(attempts.begins("uid", at(0)), "uid");
        assert!(attempts.is_open("uid"));
        assert_eq!(attempts.begins("uid", at(1)), "uid", "no answer: the same request again");
        attempts.refused("uid", at(1));
        assert!(!attempts.is_open("uid"));
        assert_eq!(attempts.begins("uid", at(2)), "uid", "nothing was launched");
        attempts.answered("uid", None, at(2));
        assert_eq!(attempts.begins("uid", at(3)), "uid-1");
        attempts.answered("uid", Some("i-1"), at(3));
        assert_eq!((attempts.instance("uid"), attempts.instance("other")), (Some("i-1"), None));
        assert!(!attempts.is_open("uid"));
        assert_eq!(attempts.begins("other", at(3 + 3600)), "other");
        assert_eq!(attempts.instance("uid"), None, "forgotten");
    }

    /// A token of a former process: whatever it launched gets a minute to appear.
    #[test]
    fn used_tokens() {
        let mut attempts = Attempts::default();
        for second in [0, 30, 59] {
            assert_eq!(attempts.begins("uid", at(second)), "uid");
            attempts.token_was_used("uid", at(second));
            assert!(attempts.is_open("uid"), "look for it");
        }
        attempts.token_was_used("uid", at(60));
        assert_eq!(attempts.begins("uid", at(60)), "uid-1");
    }
}
