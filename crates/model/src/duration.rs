//! Durations as the API writes them: Go's grammar, and `Never`.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;

/// A length of time in whole nanoseconds, read and written in Go's form (`1h30m`, `5m0s`, `1.5s`, `250ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration {
    nanos: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("{0:?} is not a duration: expected numbers with units, such as 30s, 10m or 1h30m")]
    Malformed(String),
    #[error("duration {0:?} is longer than about 292 years")]
    TooLong(String),
}

const NANOSECOND: i128 = 1;
const MICROSECOND: i128 = 1_000;
const MILLISECOND: i128 = 1_000_000;
const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

impl GoDuration {
    pub const ZERO: Self = Self { nanos: 0 };

    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self { nanos: secs.saturating_mul(1_000_000_000) }
    }

    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub const fn as_signed(self) -> SignedDuration {
        SignedDuration::from_nanos(self.nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let malformed = || DurationError::Malformed(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let number_len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
            let (number, after) = rest.split_at(number_len);
            let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_len);
            let unit = unit_nanos(unit).ok_or_else(malformed)?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(malformed());
            }
            let part = scaled(whole, fraction, unit).ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
            total = total.saturating_add(part);
            rest = after;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed).map(|nanos| Self { nanos }).map_err(|_| DurationError::TooLong(text.to_owned()))
    }
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => NANOSECOND,
        // The two code points that look like a micro sign.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// `whole.fraction × unit`, the fraction truncated to whole nanoseconds; `None` when out of range.
fn scaled(whole: &str, fraction: &str, unit: i128) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // An hour has 3.6 × 10¹² nanoseconds, so digits after the fifteenth cannot reach one. 10¹⁵ hours fit 128 bits.
    let digits = &fraction[..fraction.len().min(15)];
    let numerator: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let denominator = 10_i128.pow(u32::try_from(digits.len()).ok()?);
    whole.checked_mul(unit)?.checked_add(numerator * unit / denominator)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i128::from(self.nanos).abs();
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            _ if nanos < MICROSECOND => write!(f, "{nanos}ns"),
            _ if nanos < MILLISECOND => write!(f, "{}µs", Decimal(nanos, MICROSECOND)),
            _ if nanos < SECOND => write!(f, "{}ms", Decimal(nanos, MILLISECOND)),
            _ => {
                let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", Decimal(nanos % MINUTE, SECOND))
            }
        }
    }
}

/// A count of nanoseconds shown in a larger unit, without trailing zeros.
struct Decimal(i128, i128);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / self.1, self.0 % self.1);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let width = self.1.ilog10() as usize;
        write!(f, "{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
    }
}

/// A duration that can be switched off (API-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NillableDuration {
    After(GoDuration),
    Never,
}

impl NillableDuration {
    pub const fn duration(self) -> Option<GoDuration> {
        match self {
            Self::After(duration) => Some(duration),
            Self::Never => None,
        }
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text == "Never" { Ok(Self::Never) } else { text.parse().map(Self::After) }
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(duration) => duration.fmt(f),
            Self::Never => f.write_str("Never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// API-6: custom resources use whole seconds, minutes and hours; options use all of Go's grammar.
    #[test]
    fn go_grammar() {
        for (text, nanos, shown) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("30s", 30_000_000_000, "30s"),
            ("5m", 300_000_000_000, "5m0s"),
            ("1h30m5s", 5_405_000_000_000, "1h30m5s"),
            ("720h", 2_592_000_000_000_000, "720h0m0s"),
            ("43200m", 2_592_000_000_000_000, "720h0m0s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            (".5s", 500_000_000, "500ms"),
            ("250ms", 250_000_000, "250ms"),
            ("1us", 1_000, "1µs"),
            ("1.5µs", 1_500, "1.5µs"),
            ("7ns", 7, "7ns"),
            ("-10s", -10_000_000_000, "-10s"),
            ("+1m", 60_000_000_000, "1m0s"),
            ("1s1s", 2_000_000_000, "2s"),
            ("0.000000001h", 3_600, "3.6µs"),
        ] {
            let duration: GoDuration = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(duration.as_nanos(), nanos, "{text}");
            assert_eq!(duration.to_string(), shown, "{text}");
        }
        for text in ["", "-", "1", "s", "1x", "1h 30m", "Never", "1.s.", "..s", "1m30", " 1s"] {
            assert!(matches!(text.parse::<GoDuration>(), Err(DurationError::Malformed(_))), "{text}");
        }
        for text in ["9999999999h", "99999999999999999999999999999999999999999s"] {
            assert!(matches!(text.parse::<GoDuration>(), Err(DurationError::TooLong(_))), "{text}");
        }
    }

    /// API-7: `Never` switches off and is case-sensitive (API-4).
    #[test]
    fn never_is_a_value() {
        assert_eq!("Never".parse(), Ok(NillableDuration::Never));
        assert_eq!("0s".parse(), Ok(NillableDuration::After(GoDuration::ZERO)));
        assert!("never".parse::<NillableDuration>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_parses_or_fails_but_never_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn shown_durations_read_back(nanos in any::<i64>().prop_filter("has a positive twin", |n| *n != i64::MIN)) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
