//! A point in time in eight bytes.

use std::fmt;
use std::num::NonZeroI64;

use jiff::Timestamp;

/// To the microsecond, which is more than Kubernetes tells of an object: `metav1.Time` has whole seconds. A [`Timestamp`] takes
/// sixteen bytes, and twenty-four where it may be absent; of these a pod has three.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(NonZeroI64);

/// Added to microseconds since 1970. No [`Timestamp`] is so early that this leaves nothing.
const BIAS: i64 = 1 << 60;

impl Moment {
    pub fn time(self) -> Timestamp {
        Timestamp::from_microsecond(self.0.get() - BIAS).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(NonZeroI64::new(time.as_microsecond() + BIAS).unwrap_or(NonZeroI64::MIN))
    }
}

impl From<Moment> for Timestamp {
    fn from(moment: Moment) -> Self {
        moment.time()
    }
}

impl PartialEq<Timestamp> for Moment {
    fn eq(&self, other: &Timestamp) -> bool {
        self.time() == *other
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.time(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times() {
        let times =
            ["-009999-01-02T01:59:59Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:01.000001Z", "9999-12-30T22:00:00Z"];
        let times = times.map(|text| text.parse::<Timestamp>().unwrap());
        for time in times.into_iter().chain([Timestamp::MIN, Timestamp::UNIX_EPOCH]) {
            assert_eq!((Moment::from(time).time(), Moment::from(time) == time), (time, true));
        }
        assert!(times.map(Moment::from).is_sorted());
        assert_eq!(size_of::<Option<Moment>>(), 8);
    }
}
