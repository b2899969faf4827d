//! Kubernetes quantities: exact arithmetic and canonical text.
//!
//! A quantity is an integer number of nano-units, which is the smallest step Kubernetes knows; finer input is rounded
//! up to it, as the API machinery does. Values are clamped to ±(2⁶³−1) whole units, the range of that machinery, so sums
//! of any realistic number of quantities cannot overflow the 128 bits used here; the operators saturate all the same.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
const MAX_UNITS: i128 = i64::MAX as i128;
const MAX_NANOS: i128 = MAX_UNITS * NANOS_PER_UNIT;

/// How a quantity was written, which decides its canonical text. It takes no part in comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `1Ki`, `3Gi`
    BinarySi,
    /// `100m`, `2`, `5G`
    #[default]
    DecimalSi,
    /// `1e3`
    DecimalExponent,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantity is empty")]
    Empty,
    #[error("{0:?} is not a quantity: expected a number with an optional suffix such as m, k, M, G, Ki, Mi, Gi or e3")]
    Malformed(String),
}

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Whole units in decimal form: `3` for three CPUs or three pods.
    pub const fn units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, format: Format::DecimalSi }
    }

    /// Thousandths in decimal form: `Quantity::milli(100)` is `100m`.
    pub const fn milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * NANOS_PER_MILLI, format: Format::DecimalSi }
    }

    /// Bytes in binary form: `Quantity::bytes(1 << 30)` is `1Gi`.
    pub const fn bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANOS_PER_UNIT, format: Format::BinarySi }
    }

    /// The way back from [`Quantity::nanos`], in decimal form.
    pub fn from_nanos(nanos: i128) -> Self {
        Self::clamped(nanos, Format::DecimalSi)
    }

    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whole units, rounded up (away from the smaller value), as the API machinery's `Value()`.
    pub fn value(self) -> i64 {
        ceil_div(self.nanos, NANOS_PER_UNIT)
    }

    /// Thousandths, rounded up, saturating at the 64-bit range.
    pub fn milli_value(self) -> i64 {
        ceil_div(self.nanos, NANOS_PER_MILLI)
    }

    /// The value as a float, for reports only; decisions compare quantities.
    #[expect(clippy::cast_precision_loss, reason = "reports show a few digits")]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub const fn format(self) -> Format {
        self.format
    }

    fn clamped(nanos: i128, format: Format) -> Self {
        Self { nanos: nanos.clamp(-MAX_NANOS, MAX_NANOS), format }
    }
}

fn ceil_div(nanos: i128, step: i128) -> i64 {
    let quotient = nanos.div_euclid(step);
    let up = quotient + i128::from(nanos.rem_euclid(step) != 0);
    i64::try_from(up).unwrap_or(if up < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}
impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

/// A zero takes over the other side's form, so that summing memory from nothing keeps `Gi`.
fn joint_format(left: Quantity, right: Quantity) -> Format {
    if left.is_zero() { right.format } else { left.format }
}

impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::clamped(self.nanos + other.nanos, joint_format(self, other))
    }
}
impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::clamped(self.nanos - other.nanos, joint_format(self, other))
    }
}
impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self { nanos: -self.nanos, format: self.format }
    }
}
impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let malformed = || QuantityError::Malformed(text.to_owned());
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let number_len = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, suffix) = unsigned.split_at(number_len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let scale = Scale::from_suffix(suffix).ok_or_else(malformed)?;
        let nanos = scale.nanos(whole, fraction);
        Ok(Self::clamped(if negative { -nanos } else { nanos }, scale.format()))
    }
}

/// What a suffix multiplies with.
enum Scale {
    Binary(u32),
    Decimal(i64),
    Exponent(i64),
}

impl Scale {
    fn from_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                // Any exponent outside ±100 lies beyond the range in both directions, so its exact size is of no matter.
                Self::Exponent(exponent.parse().unwrap_or(if exponent.starts_with('-') { -100 } else { 100 }))
            }
        })
    }

    fn format(&self) -> Format {
        match self {
            Self::Binary(_) => Format::BinarySi,
            Self::Decimal(_) => Format::DecimalSi,
            Self::Exponent(_) => Format::DecimalExponent,
        }
    }

    /// The absolute value in nano-units, rounded up, at most [`MAX_NANOS`].
    fn nanos(&self, whole: &str, fraction: &str) -> i128 {
        match *self {
            Self::Decimal(exponent) | Self::Exponent(exponent) => shifted_digits(whole, fraction, exponent + 9),
            Self::Binary(shift) => {
                // The number times 2^shift: take its nano-digits first, they lose nothing that the result could hold
                // except below one nano of a unit, which rounds up.
                let factor = 1_i128 << shift;
                let whole_nanos = shifted_digits(whole, "", 9).saturating_mul(factor);
                let fraction_nanos = exact_fraction_times(fraction, factor);
                whole_nanos.saturating_add(fraction_nanos).min(MAX_NANOS)
            }
        }
    }
}

/// `whole.fraction × 10^shift`, rounded up to an integer, at most [`MAX_NANOS`].
fn shifted_digits(whole: &str, fraction: &str, shift: i64) -> i128 {
    let mut value: i128 = 0;
    let mut lost = false;
    let keep = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(shift);
    let mut position = 0_i64;
    for digit in whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0')) {
        if position < keep {
            value = value.saturating_mul(10).saturating_add(digit).min(MAX_NANOS * 10);
        } else {
            lost |= digit != 0;
        }
        position += 1;
    }
    for _ in 0..keep.saturating_sub(position).clamp(0, 64) {
        value = value.saturating_mul(10).min(MAX_NANOS * 10);
    }
    (value + i128::from(lost)).min(MAX_NANOS)
}

/// `0.fraction × factor` in nano-units, rounded up. `factor` is at most 2⁶⁰.
fn exact_fraction_times(fraction: &str, factor: i128) -> i128 {
    // Long division digit by digit: after k digits `remainder` is 0.d₁…dₖ × factor × 10⁹ scaled by 10ᵏ modulo 10ᵏ, kept as
    // nested products. Eighteen digits decide the result: 2⁶⁰ × 10⁹ × 10⁻¹⁸ is near one, further digits can only round up.
    let digits = fraction.len().min(18);
    let mut numerator: i128 = 0;
    for b in fraction.bytes().take(digits) {
        numerator = numerator * 10 + i128::from(b - b'0');
    }
    let denominator = 10_i128.pow(u32::try_from(digits).unwrap_or(18));
    // numerator × factor needs 60 + 60 bits; the nano factor comes after the division, on quotient and remainder.
    let product = numerator * factor;
    let (quotient, remainder) = (product / denominator, product % denominator);
    let rest = remainder * NANOS_PER_UNIT;
    let lost = rest % denominator != 0 || fraction.bytes().skip(digits).any(|b| b != b'0');
    quotient * NANOS_PER_UNIT + rest / denominator + i128::from(lost)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        let small = self.nanos.abs() < 1024 * NANOS_PER_UNIT;
        match self.format {
            Format::BinarySi if whole && !small => write_binary(f, self.nanos / NANOS_PER_UNIT),
            Format::DecimalExponent => write_decimal(f, self.nanos, |exponent| match exponent {
                0 => String::new(),
                other => format!("e{other}"),
            }),
            // Small or fractional binary values are shown in decimal form, so that nothing is rounded away.
            Format::BinarySi | Format::DecimalSi => write_decimal(f, self.nanos, |exponent| {
                match exponent {
                    -9 => "n",
                    -6 => "u",
                    -3 => "m",
                    3 => "k",
                    6 => "M",
                    9 => "G",
                    12 => "T",
                    15 => "P",
                    18 => "E",
                    _ => "",
                }
                .to_owned()
            }),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut units: i128) -> fmt::Result {
    let mut step = 0;
    while units % 1024 == 0 && step < 6 {
        units /= 1024;
        step += 1;
    }
    write!(f, "{units}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step])
}

/// The mantissa without trailing zeros at an exponent that is a multiple of three, largest first.
fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: i128, suffix: impl Fn(i32) -> String) -> fmt::Result {
    let mut mantissa = nanos;
    let mut exponent = -9;
    while mantissa % 1000 == 0 && exponent < 18 {
        mantissa /= 1000;
        exponent += 3;
    }
    write!(f, "{mantissa}{}", suffix(exponent))
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a number, or text such as 100m or 2Gi")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::units(units))
            }
            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                Ok(Quantity::units(i64::try_from(units).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                units.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests;
