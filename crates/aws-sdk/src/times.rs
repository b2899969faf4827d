//! Times of the SDK are seconds and nanoseconds, those of images are texts.

use aws_sdk_ec2::primitives::DateTime;
use jiff::Timestamp;

/// `None` for what no clock will ever show.
pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanoseconds).ok()
}

pub(crate) fn date_time(time: Timestamp) -> DateTime {
    // A time of ours is never before 1970, where seconds and nanoseconds would have different signs.
    DateTime::from_secs_and_nanos(time.as_second(), u32::try_from(time.subsec_nanosecond()).unwrap_or_default())
}

pub(crate) fn parsed(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-250: odd times are no times, and never a panic.
    #[test]
    fn times_come_and_go() {
        let time: Timestamp = "2026-11-16T08:00:00.25Z".parse().unwrap();
        assert_eq!(timestamp(&date_time(time)), Some(time));
        assert_eq!(timestamp(&DateTime::from_secs(i64::MAX)), None);
        assert_eq!(parsed(Some("2026-11-16T08:00:00.250Z")), Some(time));
        assert_eq!(parsed(Some("yesterday")), None);
        assert_eq!(parsed(None), None);
    }
}
