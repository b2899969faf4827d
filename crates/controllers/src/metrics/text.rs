//! Prometheus text format 0.0.4, with numbers written as the target writes them: PromQL compares `le` as text.

use std::fmt::Write as _;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", help.replace('\\', r"\\").replace('\n', r"\n"));
}

/// One line. `name` is the metric's name and what a sample of it adds to that.
pub(super) fn sample(
    out: &mut String,
    (name, suffix): (&str, &str),
    labels: &[String],
    values: &[&str],
    extra: Option<(&str, &str)>,
    value: f64,
) {
    out.push_str(name);
    out.push_str(suffix);
    let pairs = labels.iter().map(String::as_str).zip(values.iter().copied()).chain(extra);
    let mut opening = '{';
    for (label, text) in pairs {
        out.push(opening);
        opening = ',';
        out.push_str(label);
        out.push_str("=\"");
        escape(out, text);
        out.push('"');
    }
    if opening == ',' {
        out.push('}');
    }
    out.push(' ');
    out.push_str(&float(value));
    out.push('\n');
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str(r"\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str(r"\n"),
            c => out.push(c),
        }
    }
}

/// The shortest digits that read back as the same number, with an exponent below 1e-4 and from 1e6 up: Go's `%g`.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent >= 6 => format!("{mantissa}e+{exponent:02}"),
        Ok(exponent) if exponent < -4 => format!("{mantissa}e-{:02}", exponent.abs()),
        _ => value.to_string(),
    }
}

/// Counts are far below the 2^53 from which on they would be rounded.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-181: as the target's library writes numbers.
    #[test]
    fn numbers() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (864_000.0, "864000"),
            (1_296_000.0, "1.296e+06"),
            (1e21, "1e+21"),
            (-2.5, "-2.5"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn label_values_may_hold_anything() {
        let mut out = String::new();
        let labels = ["a".to_owned(), "b".to_owned()];
        sample(&mut out, ("x", "_total"), &labels, &["q\"\\\n", "ü"], None, 3.0);
        sample(&mut out, ("x", ""), &[], &[], None, 0.5);
        assert_eq!(out, "x_total{a=\"q\\\"\\\\\\n\",b=\"ü\"} 3\nx 0.5\n");
    }
}
