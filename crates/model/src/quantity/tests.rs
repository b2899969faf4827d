use proptest::prelude::*;

use super::*;

/// API-9: the canonical text of what users write.
#[test]
fn canonical_text() {
    for (text, want) in [
        ("0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("+5", "5"),
        ("-1Gi", "-1Gi"),
        ("1000m", "1"),
        ("100m", "100m"),
        ("0.1", "100m"),
        (".5", "500m"),
        ("2.", "2"),
        ("1500m", "1500m"),
        ("1024Gi", "1Ti"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("512", "512"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1000k", "1M"),
        ("2G", "2G"),
        ("64000G", "64T"),
        ("1e3", "1e3"),
        ("12e4", "120e3"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("1Ki", "1Ki"),
        ("100Ki", "100Ki"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("1u", "1u"),
        ("7Ei", "7Ei"),
        ("100E", "9223372036854775807"),
        ("9999999999999999999999", "9223372036854775807"),
        ("-100Ei", "-9223372036854775807"),
        ("1e99", "9223372036854775807"),
        ("1e-99", "1e-9"),
    ] {
        let quantity: Quantity = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(quantity.to_string(), want, "{text}");
    }
}

/// API-9: what is no quantity is refused.
#[test]
fn malformed_text() {
    assert_eq!("".parse::<Quantity>(), Err(QuantityError::Empty));
    for text in ["Gi", ".", "-", "1.2.3", "1 Gi", "1gi", "1KI", "0x10", "1e", "1e1.5", "e3", "١", "1i", "--1", "NaN"] {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
}

#[test]
fn values_round_up() {
    assert_eq!("1500m".parse::<Quantity>().unwrap().value(), 2);
    assert_eq!("-1500m".parse::<Quantity>().unwrap().value(), -1);
    assert_eq!("1n".parse::<Quantity>().unwrap().milli_value(), 1);
    assert_eq!("1Ei".parse::<Quantity>().unwrap().milli_value(), i64::MAX);
}

#[test]
fn sums_keep_the_form_of_the_first_value_that_is_not_zero() {
    let sum: Quantity = ["0", "1Gi", "1G"].iter().map(|t| t.parse::<Quantity>().unwrap()).sum();
    assert_eq!(sum.to_string(), "2073741824");
    let sum: Quantity = ["0", "1Gi", "1Gi"].iter().map(|t| t.parse::<Quantity>().unwrap()).sum();
    assert_eq!(sum.to_string(), "2Gi");
}

fn any_quantity_text() -> impl Strategy<Value = String> {
    ("[+-]?", "[0-9]{0,20}", "(\\.[0-9]{0,25})?", "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?")
        .prop_map(|(sign, whole, fraction, suffix)| format!("{sign}{whole}{fraction}{suffix}"))
}

proptest! {
    #[test]
    fn any_text_parses_or_fails_but_never_panics(text in "\\PC{0,24}") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn canonical_text_reads_back_as_the_same_value(text in any_quantity_text()) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let canonical = quantity.to_string();
            let again: Quantity = canonical.parse().unwrap();
            prop_assert_eq!(again, quantity, "{} -> {}", text, canonical);
            prop_assert_eq!(again.to_string(), canonical);
        }
    }

    #[test]
    fn addition_and_subtraction_are_exact(a in any::<i64>(), b in any::<i64>()) {
        let (x, y) = (Quantity::milli(a), Quantity::milli(b));
        prop_assert_eq!((x + y) - y, x);
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
    }

    #[test]
    fn binary_suffixes_multiply(n in 0_i64..1_000_000, shift in 0_usize..4) {
        let suffix = ["Ki", "Mi", "Gi", "Ti"][shift];
        let quantity: Quantity = format!("{n}{suffix}").parse().unwrap();
        let factor = 1_i64 << (10 * (shift + 1));
        prop_assert_eq!(quantity.value(), n.saturating_mul(factor));
    }
}
