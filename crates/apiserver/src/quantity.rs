//! Resource quantities in the one form in which the server stores them: `1000m` is `1`, `0.5` is `500m`.

/// The canonical text, or `None` for what is no quantity.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (number, suffix) = split(text)?;
    let (digits, fraction) = parse(number)?;
    let (binary, power) = match suffix {
        "" => (false, 0),
        "n" => (false, -9),
        "u" => (false, -6),
        "m" => (false, -3),
        "k" => (false, 3),
        "M" => (false, 6),
        "G" => (false, 9),
        "T" => (false, 12),
        "P" => (false, 15),
        "E" => (false, 18),
        "Ki" => (true, 1),
        "Mi" => (true, 2),
        "Gi" => (true, 3),
        "Ti" => (true, 4),
        "Pi" => (true, 5),
        "Ei" => (true, 6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            return decimal(digits, power.checked_sub(fraction)?).map(|(n, p)| exponential(n, p));
        }
    };
    if !binary {
        return decimal(digits, power - fraction).map(|(n, p)| decimal_text(n, p));
    }
    let scale = 1024_i128.checked_pow(u32::try_from(power).ok()?)?;
    let scaled = digits.checked_mul(scale)?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction).ok()?)?;
    if scaled % divisor == 0 {
        let whole = scaled / divisor;
        if whole.abs() >= 1024 {
            return Some(binary_text(whole));
        }
    }
    decimal(scaled, -fraction).map(|(n, p)| decimal_text(n, p))
}

/// The order of two quantities, if both are ones.
pub(crate) fn cmp(a: &str, b: &str) -> Option<std::cmp::Ordering> {
    Some(nanos(a)?.cmp(&nanos(b)?))
}

/// In billionths. Amounts beyond what fits are no quantity.
fn nanos(text: &str) -> Option<i128> {
    let (number, suffix) = split(text)?;
    let (digits, fraction) = parse(number)?;
    let scale = |power: i32| -> Option<i128> {
        let power = power.checked_add(9)?.checked_sub(fraction)?;
        let factor = 10_i128.checked_pow(power.unsigned_abs())?;
        if power >= 0 { digits.checked_mul(factor) } else { Some(digits / factor) }
    };
    let binary = |power: u32| scale(0)?.checked_mul(1024_i128.checked_pow(power)?);
    match suffix {
        "" => scale(0),
        "n" => scale(-9),
        "u" => scale(-6),
        "m" => scale(-3),
        "k" => scale(3),
        "M" => scale(6),
        "G" => scale(9),
        "T" => scale(12),
        "P" => scale(15),
        "E" => scale(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => scale(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Digits without the point, and how many of them were behind it.
fn parse(number: &str) -> Option<(i128, i32)> {
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || !whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit()) {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    Some((sign * digits, i32::try_from(fraction.len()).ok()?))
}

/// A power of ten that is a multiple of three, as large as the number allows, at least nano (rounded up).
fn decimal(mut number: i128, mut power: i32) -> Option<(i128, i32)> {
    if number == 0 {
        return Some((0, 0));
    }
    while power < -9 {
        let up = i128::from(number % 10 != 0) * number.signum();
        number = number / 10 + up;
        power += 1;
    }
    while power % 3 != 0 {
        number = number.checked_mul(10)?;
        power -= 1;
    }
    while number % 1000 == 0 && power < 18 {
        number /= 1000;
        power += 3;
    }
    while power > 18 {
        number = number.checked_mul(1000)?;
        power -= 3;
    }
    Some((number, power))
}

fn decimal_text(number: i128, power: i32) -> String {
    let suffix = match power {
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
    };
    format!("{number}{suffix}")
}

fn exponential(number: i128, power: i32) -> String {
    if power == 0 { number.to_string() } else { format!("{number}e{power}") }
}

fn binary_text(mut number: i128) -> String {
    let mut power = 0;
    while number % 1024 == 0 && power < 6 {
        number /= 1024;
        power += 1;
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, want) in [
            ("1000m", Some("1")),
            ("0.5", Some("500m")),
            ("100Mi", Some("100Mi")),
            ("1024Mi", Some("1Gi")),
            ("1.5Gi", Some("1536Mi")),
            ("0.5Ki", Some("512")),
            ("1Ki", Some("1Ki")),
            ("1e3", Some("1e3")),
            ("1E6", Some("1e6")),
            ("1500000", Some("1500k")),
            ("0", Some("0")),
            ("0Gi", Some("0")),
            ("-1", Some("-1")),
            (".5", Some("500m")),
            ("1.", Some("1")),
            ("0.0000000001", Some("1n")),
            ("", None),
            ("x", None),
            ("1x", None),
            ("1.2.3", None),
            ("1 Gi", None),
        ] {
            assert_eq!(canonical(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn quantities_are_ordered() {
        use std::cmp::Ordering::{Equal, Greater, Less};
        for (a, b, want) in [
            ("1", "1000m", Some(Equal)),
            ("1Gi", "1G", Some(Greater)),
            ("500m", "1", Some(Less)),
            ("1e3", "1k", Some(Equal)),
            ("x", "1", None),
        ] {
            assert_eq!(cmp(a, b), want, "{a} {b}");
        }
    }
}
