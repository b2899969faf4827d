//! Durations as a person reads them: two units at most, and only one when the first is large enough.

use jiff::Timestamp;
use serde_json::Value;

/// The time since `then`, a field of an object.
pub(super) fn since(then: &Value, now: Timestamp) -> String {
    match time(then) {
        Some(then) => between(then, now),
        None => "<unknown>".to_owned(),
    }
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(super) fn between(then: Timestamp, now: Timestamp) -> String {
    let span = now.duration_since(then);
    let seconds = span.as_secs();
    // Clocks differ a little, so a second of the future is now.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    human(u64::try_from(seconds).unwrap_or(0))
}

fn human(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    let two = |large: u64, unit: &str, small: u64, part: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{part}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        for (seconds, want) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (27_000, "7h30m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (62_985_600, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human(seconds), want, "{seconds}");
        }
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |text: &str| since(&Value::from(text), now);
        assert_eq!(at("2026-01-01T00:00:01Z"), "0s");
        assert_eq!(at("2026-01-01T00:00:03Z"), "<invalid>");
        assert_eq!(since(&Value::Null, now), "<unknown>");
    }
}
