use super::*;

const LARGE: Inputs<'static> = tried(2, 8_192, 3, 10, 29, "m5.large");

fn evaluated(text: &str, inputs: &Inputs<'_>) -> Result<i64, String> {
    let expression = Expression::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    on_a_large_stack(|| expression.evaluate(inputs)).unwrap()
}

/// AWS-95, AWS-96, AC-97, AC-98, AC-101: what expressions know, and what becomes of their results.
#[test]
fn results() {
    let four_times = Inputs { vcpus: 16, default_enis: 8, ips_per_eni: 30, ..LARGE };
    for (text, inputs, want) in [
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", &LARGE, 20),
        ("min(250, (default_enis * (ips_per_eni - 1) * 16) + 2)", &LARGE, 250),
        ("max(60, vcpus * 30)", &four_times, 480),
        ("max(60, vcpus * 30)", &Inputs { vcpus: 1, ..LARGE }, 60),
        ("max(3, 7.9)", &LARGE, 7),
        ("min(7.9, 3)", &LARGE, 3),
        ("min(2.5, 1.9)", &LARGE, 1),
        ("0.0 - 7.9", &LARGE, -7),
        ("memory_mib / 100", &LARGE, 81),
        ("11 * max_pods + 255", &Inputs { max_pods: 58, ..LARGE }, 893),
        ("instance_type.startsWith('m5.') ? 110 : max_pods", &LARGE, 110),
        ("double(vcpus) * 1.75", &LARGE, 3),
        ("[vcpus, 4].map(x, x * 2)[0]", &LARGE, 4),
    ] {
        assert_eq!(evaluated(text, inputs), Ok(want), "{text}");
    }
}

/// AWS-96, AC-95: what is wrong whatever the type.
#[test]
fn expressions_that_are_none() {
    let long = format!("vcpus{}", " + 1".repeat(3_000));
    let deep = format!("{}vcpus{}", "(".repeat(500), ")".repeat(500));
    for text in [
        "vcpus *",
        "",
        "  ",
        "vcpus > 2",
        "cores * 2",
        "vcpus > 1000 ? cores : 1",
        "instance_type",
        "vcpus * 1.5",
        "nothing(vcpus)",
        "max(vcpus)",
        "max('a', 'b')",
        "vcpus == 2 ? 'a' : 1",
        "uint(vcpus)",
        "\"100 cores\"",
        &long,
        &deep,
    ] {
        let error = Expression::compile(text).map(|_| ()).unwrap_err();
        assert!(!error.is_empty() && !error.contains('\n'), "{text}: {error:?}");
    }
}

/// The most that is let through fits on the stack.
#[test]
fn large_expressions() {
    let brackets =
        |kind: (&str, &str)| format!("{}vcpus{}", kind.0.repeat(MOST_BRACKETS), kind.1.repeat(MOST_BRACKETS));
    let calls = brackets(("max(1, ", ")"));
    for (text, want) in [
        (format!("vcpus{}", " + 1".repeat(MOST_OPERATORS)), 2 + 64),
        (format!("vcpus{}", " * 1".repeat(MOST_OPERATORS)), 2),
        (brackets(("(", ")")), 2),
        (calls, 2),
        (format!("{}4", "vcpus > 3 ? 1 : ".repeat(MOST_OPERATORS / 2)), 4),
        (format!("{}{}", "(1 + ".repeat(MOST_BRACKETS), "1") + &")".repeat(MOST_BRACKETS), 17),
    ] {
        assert_eq!(evaluated(&text, &LARGE), Ok(want), "{text}");
    }
    for text in ["-".repeat(MOST_OPERATORS) + "1", "!".repeat(MOST_OPERATORS) + "1", brackets(("[", "]"))] {
        drop(Expression::compile(&text));
    }
}

/// AWS-96: what only shows for a type.
#[test]
fn expressions_that_fail() {
    for text in
        ["vcpus / 0", "vcpus % (vcpus - vcpus)", "9223372036854775807 + vcpus", "1.0 / 0.0", "1e300", "[1][vcpus]"]
    {
        assert!(evaluated(text, &LARGE).is_err(), "{text}");
    }
}

/// AWS-97, AWS-98, AC-98 … AC-100: numbers become amounts in steps.
#[test]
fn amounts() {
    for (resource, result, want) in [
        ("cpu", 480, "480m"),
        ("cpu", 72, "80m"),
        ("cpu", 61, "70m"),
        ("cpu", 0, "0m"),
        ("memory", 893, "896Mi"),
        ("memory", 81, "96Mi"),
        ("memory", 220, "224Mi"),
        ("memory", 0, "0Mi"),
        ("ephemeral-storage", 3, "3Gi"),
        ("pid", 1000, "1000"),
        ("cpu", i64::MAX, "9223372036854775807m"),
        ("memory", i64::MAX - 7, "9223372036854775800Mi"),
    ] {
        assert_eq!(amount(resource, result).as_deref(), Ok(want), "{resource} {result}");
    }
    assert!(amount("cpu", -1).is_err());
    for (result, fits) in [(0, true), (2_147_483_647, true), (2_147_483_648, false), (-1, false)] {
        assert_eq!(max_pods(result).is_ok(), fits, "{result}");
    }
}
