use proptest::prelude::*;

use super::*;

fn requirement(operator: Operator, values: &[&str]) -> Requirement {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    Requirement::new(&LabelRules::core(), "key", operator, &values, None).unwrap()
}

/// The notation of the specification's tables: E, 0 (∅), {A,B}, !{A}, >=2, <=8, and combinations such as `!{2}>=2`.
fn parse(text: &str) -> Requirement {
    let (set, bounds) = text.find(['<', '>']).map_or((text, ""), |at| text.split_at(at));
    let values = |set: &str| set.trim_matches(['!', '{', '}']).split(',').map(ToOwned::to_owned).collect::<Vec<_>>();
    let mut parsed = match set {
        "E" | "" => Requirement::exists("key"),
        "0" => Requirement::does_not_exist("key"),
        _ if set.starts_with('!') => {
            Requirement { complement: true, values: values(set).into_iter().collect(), ..Requirement::exists("key") }
        }
        _ => Requirement::any_of("key", values(set)),
    };
    for bound in bounds.split_inclusive(|c: char| c.is_ascii_digit()).collect::<String>().split_terminator(' ') {
        for part in bound.replace(">=", " g").replace("<=", " l").split_whitespace() {
            match part.split_at(1) {
                ("g", number) => parsed.at_least = Some(number.parse().unwrap()),
                (_, number) => parsed.at_most = Some(number.parse().unwrap()),
            }
        }
    }
    parsed
}

const COLUMNS: &str = "E 0 {A} {B} {A,B} !{A} {1} {9} {1,9} !{1,2} >=2 >=10 <=0 <=8";

const INTERSECTION: &str = "
E 0 {A} {B} {A,B} !{A} {1} {9} {1,9} !{1,2} >=2 >=10 <=0 <=8
0 0 0 0 0 0 0 0 0 0 0 0 0 0
{A} 0 {A} 0 {A} 0 0 0 0 {A} 0 0 0 0
{B} 0 0 {B} {B} {B} 0 0 0 {B} 0 0 0 0
{A,B} 0 {A} {B} {A,B} {B} 0 0 0 {A,B} 0 0 0 0
!{A} 0 0 {B} {B} !{A} {1} {9} {1,9} !{1,2,A} >=2 >=10 <=0 <=8
{1} 0 0 0 0 {1} {1} 0 {1} 0 0 0 0 {1}
{9} 0 0 0 0 {9} 0 {9} {9} {9} {9} 0 0 0
{1,9} 0 0 0 0 {1,9} {1} {9} {1,9} {9} {9} 0 0 {1}
!{1,2} 0 {A} {B} {A,B} !{1,2,A} 0 {9} {9} !{1,2} !{2}>=2 >=10 <=0 !{1,2}<=8
>=2 0 0 0 0 >=2 0 {9} {9} !{2}>=2 >=2 >=10 0 >=2<=8
>=10 0 0 0 0 >=10 0 0 0 >=10 >=10 >=10 0 0
<=0 0 0 0 0 <=0 0 0 0 <=0 0 0 <=0 <=0
<=8 0 0 0 0 <=8 {1} 0 {1} !{1,2}<=8 >=2<=8 0 <=0 <=8";

/// Q9, Q10, SC-34, SCH-39, API-275: every cell, without minValues and with it on either side.
#[test]
fn intersection_table() {
    let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
    for (row, line) in columns.iter().zip(INTERSECTION.trim().lines()) {
        for (column, want) in columns.iter().zip(line.split_whitespace()) {
            for (left, right, min_values) in [(None, None, None), (Some(2), None, Some(2)), (Some(1), Some(3), Some(3))]
            {
                let (mut a, mut b, mut c) = (parse(row), parse(column), parse(want));
                a.set_min_values(left);
                b.set_min_values(right);
                c.set_min_values(min_values);
                assert_eq!(a.intersection(&b), c, "{row} ∩ {column}");
            }
        }
    }
}

/// Rows: node side. y = compatible in both modes, L = lenient mode only, n = never. First column: key undefined.
const COMPATIBILITY: &str = "
y L y L L L y L L L y L L L L
y y n y y y y y y y y y y y y
y n y n n n y n n n y n n n n
y y n y n y n n n n y n n n n
y y n n y y y n n n y n n n n
y y n y y y y n n n y n n n n
y y y n y y y y y y y y y y y
y y n n n n y y n y n n n n y
y y n n n n y n y y y y n n n
y y n n n n y y y y y y n n y
y y y y y y y n y y y y y y y
y y n n n n y n y y y y y n y
y y n n n n y n n n y y y n n
y y n n n n y n n n y n n y y
y y n n n n y y n y y y n y y";

/// SCH-41, SCH-45, SC-35, SCH-42, SCH-43, SCH-44: every cell in lenient and strict mode.
#[test]
fn compatibility_table() {
    let rules = LabelRules::core().well_known(["key"]);
    let sides: Vec<Requirements> = std::iter::once(Requirements::new())
        .chain(COLUMNS.split_whitespace().map(|text| Requirements::from_iter([parse(text)])))
        .collect();
    for (node, line) in sides.iter().zip(COMPATIBILITY.trim().lines()) {
        for (incoming, want) in sides.iter().zip(line.split_whitespace()) {
            for (mode, compatible) in
                [(Undefined::WellKnownAllowed(&rules), want != "n"), (Undefined::Denied, want == "y")]
            {
                assert_eq!(node.is_compatible(incoming, mode), compatible, "[{node}] for [{incoming}], {want}");
                assert_eq!(node.incompatibilities(incoming, mode).is_empty(), compatible);
            }
        }
    }
}

/// SCH-30, SC-36, SCH-35.
#[test]
fn membership_table() {
    for (value, line) in [
        ("A", "y n y n y n n n n y n n n n"),
        ("B", "y n n y y y n n n y n n n n"),
        ("1", "y n n n n y y n y n n n n y"),
        ("2", "y n n n n y n n n n y n n y"),
        ("9", "y n n n n y n y y y y n n n"),
    ] {
        for (set, want) in COLUMNS.split_whitespace().zip(line.split_whitespace()) {
            assert_eq!(parse(set).has(value), want == "y", "{value} in {set}");
        }
    }
}

/// SC-37, SCH-32: deprecated keys become the stable ones.
#[test]
fn deprecated_keys_are_normalised() {
    let rules = LabelRules::core();
    let set: Requirements = labels::ALIASES
        .iter()
        .map(|(old, _)| Requirement::new(&rules, old, Operator::Exists, &[], None).unwrap())
        .collect();
    let mut keys: Vec<&str> = labels::ALIASES.iter().map(|(_, new)| *new).collect();
    keys.sort_unstable();
    assert_eq!(set.iter().map(Requirement::key).collect::<Vec<_>>(), keys);
}

/// Q11, SC-38, SC-39, SC-40, SC-41, SC-42, SCH-38: bounds.
#[test]
fn bounds() {
    use Operator::{Gt, Gte, Lt, Lte};
    let both =
        |a: (Operator, &str), b: (Operator, &str)| requirement(a.0, &[a.1]).intersection(&requirement(b.0, &[b.1]));
    assert_eq!(both((Gt, "1"), (Lt, "9")).to_string(), "key Exists >=2 <=8");
    assert_eq!(both((Gt, "9"), (Lt, "1")).to_string(), "key DoesNotExist");
    for (a, b, want) in [
        ((Gt, "4"), (Gte, "5"), "key Gte 5"),
        ((Gt, "5"), (Gte, "5"), "key Gte 6"),
        ((Lt, "5"), (Lte, "5"), "key Lte 4"),
        ((Lt, "9"), (Lte, "5"), "key Lte 5"),
        ((Gt, "3"), (Gte, "6"), "key Gte 6"),
        ((Gte, "8"), (Lte, "8"), "key Gte 8, key Lte 8"),
    ] {
        let shown: Vec<String> = both(a, b)
            .entries()
            .iter()
            .map(|entry| format!("{} {} {}", entry.key, entry.operator.as_str(), entry.values.join(",")))
            .collect();
        assert_eq!(shown.join(", "), want);
    }
    for (set, inside, outside) in [
        (requirement(Gte, &["2"]), "2 3 100", "1 0 x"),
        (requirement(Lte, &["8"]), "8 7 0", "9"),
        (both((Gte, "2"), (Lte, "8")), "2 5 8", "1 9"),
        (requirement(Gte, &["0"]), "0", "-1"),
        (requirement(Lte, &["0"]), "0", "1"),
    ] {
        assert!(inside.split(' ').all(|value| set.has(value)), "{set}");
        assert!(!outside.split(' ').any(|value| set.has(value)), "{set}");
    }
}

/// SC-43, SC-44, SC-45, SCH-31, SCH-33, SCH-34.
#[test]
fn construction_and_length() {
    let greatest = requirement(Operator::Gt, &["9223372036854775807"]);
    assert_eq!((greatest.operator(), greatest.len()), (Operator::DoesNotExist, 0));
    assert_eq!(requirement(Operator::Lt, &["-9223372036854775808"]).operator(), Operator::DoesNotExist);
    let rules = LabelRules::core();
    let with = |operator, value: &str| Requirement::new(&rules, "key", operator, &[value.to_owned()], Some(1)).unwrap();
    assert_eq!(with(Operator::NotIn, "A").to_string(), "key NotIn [A] minValues 1");
    assert_eq!(with(Operator::Gt, "1").entries()[0].min_values, Some(1));
    for (set, want) in [("E", 0), ("!{A}", 1), ("!{1,2}", 2), (">=2", 0), ("<=8", 0)] {
        assert_eq!(parse(set).len(), i64::MAX as u64 - want, "{set}");
    }
    assert_eq!(parse("{A,B}").len(), 2);
    assert!(parse("0").is_empty());
    for values in [&[][..], &["1", "2"], &["x"], &["1.5"]] {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        assert!(Requirement::new(&rules, "key", Operator::Gte, &values, None).is_err(), "{values:?}");
    }
}

/// Q12, SC-46, SCH-36: deterministic, avoids excluded values, never fails on an empty range.
#[test]
fn any_value() {
    for (set, want) in [
        ("{A}", "A"),
        ("{B,A}", "A"),
        ("0", ""),
        ("<=0", "0"),
        (">=10", "10"),
        ("E", "0"),
        ("!{0,1}", "2"),
        ("<=8", "0"),
    ] {
        assert_eq!(parse(set).any(), want, "{set}");
    }
    assert_eq!(requirement(Operator::Lt, &["0"]).any(), "");
    assert_eq!(requirement(Operator::Gt, &["9223372036854775806"]).any(), i64::MAX.to_string());
}

/// SC-47, SCH-46: undefined keys are named, with a hint where there is one.
#[test]
fn hints() {
    let rules = LabelRules::core();
    for (key, hint) in [
        ("zone", Some(labels::ZONE)),
        ("region", Some(labels::REGION)),
        ("nodepool", Some(labels::NODEPOOL)),
        ("instance-type", Some(labels::INSTANCE_TYPE)),
        ("arch", Some(labels::ARCH)),
        ("capacity-type", Some(labels::CAPACITY_TYPE)),
        ("topology.kubernetesio/zone", Some(labels::ZONE)),
        ("node.io/zone", Some(labels::ZONE)),
        ("topology.kubernetes.io/regio", Some(labels::REGION)),
        ("karpenter/nodepool", Some(labels::NODEPOOL)),
        ("deployment", None),
    ] {
        let asked = Requirements::from_iter([Requirement::exists(key)]);
        assert_eq!(
            Requirements::new().incompatibilities(&asked, Undefined::WellKnownAllowed(&rules)),
            [Incompatibility::Undefined { key: key.to_owned(), hint: hint.map(ToOwned::to_owned) }],
            "{key}"
        );
    }
}

/// SCH-37: more than five values are cut, the host name is not shown, SCH-40: adding narrows.
#[test]
fn shown_sets() {
    let mut set = Requirements::from_iter([
        Requirement::any_of("key", ["f", "e", "d", "c", "b", "a", "g"]),
        Requirement::any_of(labels::HOSTNAME, ["x"]),
        Requirement::exists("arch"),
    ]);
    assert_eq!(set.to_string(), "arch Exists, key In [a b c d e and 2 others]");
    set.add(Requirement::any_of("key", ["a", "z"]));
    assert_eq!(set.get("key").and_then(Requirement::single_value), Some("a"));
}

fn any_requirement() -> impl Strategy<Value = Requirement> {
    let value = prop_oneof!["[AB]", "[0-9]"];
    prop_oneof![
        prop::collection::btree_set(value.clone(), 0..4).prop_map(|values| Requirement::any_of("key", values)),
        (prop::collection::btree_set(value, 0..4), prop::option::of(0_i64..10), prop::option::of(0_i64..10)).prop_map(
            |(values, at_least, at_most)| {
                let base = Requirement { values: values.into_iter().collect(), ..Requirement::exists("key") };
                let bounded =
                    Requirement { values: Values::default(), at_least, at_most, ..Requirement::exists("key") };
                base.intersection(&bounded)
            }
        ),
    ]
}

proptest! {
    #[test]
    fn intersection_means_both(a in any_requirement(), b in any_requirement(), value in "[ABC0-9]") {
        let both = a.intersection(&b);
        prop_assert_eq!(both.has(&value), a.has(&value) && b.has(&value), "{} ∩ {} = {}", a, b, both);
        prop_assert_eq!(&both, &b.intersection(&a));
        prop_assert_eq!(a.intersection(&a), a);
    }

    #[test]
    fn parsing_never_panics(key in "\\PC{0,20}", operator in 0_usize..8, values in prop::collection::vec("\\PC{0,8}", 0..3)) {
        let rules = LabelRules::core();
        if let Ok(parsed) = Requirement::new(&rules, &key, Operator::ALL[operator], &values, Some(1)) {
            let _ = (parsed.to_string(), parsed.any(), parsed.entries(), parsed.len());
        }
    }

    #[test]
    fn entries_read_back(a in any_requirement()) {
        let rules = LabelRules::core();
        let again: Requirements = a
            .entries()
            .iter()
            .map(|e| Requirement::new(&rules, &e.key, e.operator, &e.values, e.min_values).unwrap())
            .collect();
        let again = again.get("key").unwrap();
        // Exclusions are lost beside a bound, by the rule; everything else survives.
        if a.at_least.is_none() && a.at_most.is_none() {
            prop_assert_eq!(again, &a);
        } else {
            prop_assert_eq!((again.at_least, again.at_most), (a.at_least, a.at_most));
        }
    }
}
