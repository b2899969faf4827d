//! String formats that the API server checks.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether `text` has `format`; unknown formats are always fine.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => date_time(text),
        "date" => date(text),
        "duration" => duration(text),
        "byte" => base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "uuid" => uuid(text),
        _ => true,
    }
}

/// `text` as a number of exactly `digits` ASCII digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn date_time(text: &str) -> bool {
    let Some((day, time)) = text.split_once(['T', 't']) else { return false };
    let Some(clock) = time.get(..8) else { return false };
    let parts: Vec<Option<u32>> = clock.split(':').map(|p| number(p, 2)).collect();
    let [Some(hour), Some(minute), Some(second)] = parts[..] else { return false };
    date(day) && hour < 24 && minute < 60 && second < 60 && zone(fraction_end(&time[8..]))
}

/// What follows an optional fraction of a second.
fn fraction_end(text: &str) -> &str {
    let Some(fraction) = text.strip_prefix('.') else { return text };
    let end = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    if end.len() == fraction.len() { text } else { end }
}

fn zone(text: &str) -> bool {
    if text.eq_ignore_ascii_case("z") {
        return true;
    }
    let Some((hours, minutes)) = text.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':')) else {
        return false;
    };
    number(hours, 2).is_some() && number(minutes, 2).is_some()
}

/// A Go duration that fits 64 bits of nanoseconds.
fn duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned;
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, unit) = rest.split_at(end);
        let Ok(amount) = amount.parse::<f64>() else { return false };
        let units =
            [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
        let Some((name, nanoseconds)) = units.into_iter().find(|(name, _)| unit.starts_with(name)) else {
            return false;
        };
        total += amount * nanoseconds;
        rest = &unit[name.len()..];
    }
    !unsigned.is_empty() && total < 9.2e18
}

fn base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12]) && groups.concat().bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_the_server() {
        for (format, good, bad) in [
            (
                "date-time",
                &["2024-02-29T23:59:59Z", "2024-01-01t00:00:00.123456z", "2024-01-01T00:00:00+02:00"][..],
                &[
                    "",
                    "foo",
                    "2024-01-01 00:00:00",
                    "2023-02-29T00:00:00Z",
                    "2024-01-01T24:00:00Z",
                    "2024-01-01T00:00:00.Z",
                    "2024-01-01T00:00:00é",
                ][..],
            ),
            ("date", &["2024-12-31"], &["2024-13-01", "24-01-01", "2024-1-1"]),
            ("duration", &["1h30m", "0", "-1.5s", "20µs"], &["", "1", "s", "1x", "1h-", "99999999999h", "é"]),
            ("byte", &["", "aGk=", "aGVsbG8h"], &["a", "aGk", "a===", "aé=="]),
            ("ipv4", &["10.0.0.1"], &["10.0.0", "::1"]),
            ("ipv6", &["::1"], &["10.0.0.1"]),
            ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]),
            ("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567"]),
            ("something-else", &["x"], &[]),
        ] {
            for text in good {
                assert!(matches(format, text), "{format} {text:?}");
            }
            for text in bad {
                assert!(!matches(format, text), "{format} {text:?}");
            }
        }
    }
}
