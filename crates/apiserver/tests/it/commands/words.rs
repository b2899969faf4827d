//! Command lines into words, and what is printed without what differs from run to run.

use std::sync::LazyLock;

use regex::Regex;

/// As a shell does, with single quotes only.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        if i % 2 == 1 {
            // A quoted part joins what is before it unless that ended with a space.
            match words.last_mut() {
                Some(last) if !line_ends_with_space(line, i) => *last = format!("{last}{part}"),
                _ => words.push(part.to_owned()),
            }
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn line_ends_with_space(line: &str, part: usize) -> bool {
    line.split('\'').nth(part - 1).is_some_and(|before| before.is_empty() || before.ends_with(' '))
}

/// Pattern and what takes its place, in this order.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        // Only a real server has this loop, and only now and then does it run while a service is new.
        (r"(?m)^.*ipallocator-repair-controller.*\n", ""),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r#"(resourceVersion"?: )"\d+""#, "${1}VERSION"),
        (r"https?://127\.0\.0\.1:\d+", "SERVER"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
        (r"\bmade-[a-z0-9]{5}\b", "made-SUFFIX"),
        (r"/tmp/(LIVE|MERGED)-\d+", "/tmp/$1"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
        (r"(Resource Version: +)\d+", "${1}VERSION"),
        // Ages are in columns of their own, or in brackets; quantities such as `100m` follow a key.
        (r"(?m)(^|  |\t|\(|over |Age: +)(\d+[dhms])+( ago)?(  |\t|\)| \(|$)", "${1}AGE$4"),
        (r"(?m)[ \t]+$", ""),
        (r"(?m)(\S)[ \t]{2,}", "$1  "),
    ]
    .into_iter()
    .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    .collect()
});

pub(super) fn normal(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, with) in RULES.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    text
}

#[test]
fn lines_are_split_as_a_shell_does() {
    assert_eq!(split("get pods -o wide"), ["get", "pods", "-o", "wide"]);
    assert_eq!(split("patch cm a -p '{\"a\": 1}' -n x"), ["patch", "cm", "a", "-p", "{\"a\": 1}", "-n", "x"]);
    assert_eq!(split("get x -o jsonpath='{.a b}'"), ["get", "x", "-o", "jsonpath={.a b}"]);
}

#[test]
fn what_differs_from_run_to_run_is_replaced() {
    for (text, want) in [
        ("a   1   5s\nb   0   2m10s", "a  1  AGE\nb  0  AGE"),
        ("uid: 0a1b2c3d-0000-1111-2222-333344445555", "uid: UID"),
        ("resourceVersion: \"12\"", "resourceVersion: VERSION"),
        ("at 2026-01-02T03:04:05Z on http://127.0.0.1:6443/x", "at TIME on SERVER/x"),
        ("Normal  5s (x2 over 10s)", "Normal  AGE (x2 over AGE)"),
        ("  cpu: 100m\n    deeper:     x", "  cpu: 100m\n    deeper:  x"),
    ] {
        assert_eq!(normal(text), want);
    }
}
