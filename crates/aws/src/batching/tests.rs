use std::collections::BTreeSet;

use super::*;
use crate::cloud::{FleetAnswer, FleetError, FleetInstance};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn sizes(batcher: &mut Batcher<&'static str, i64>, millis: i64) -> Vec<(&'static str, usize)> {
    batcher.due(at(millis)).into_iter().map(|(key, items, _)| (key, items.len())).collect()
}

/// AWS-194, AC-226: a pause ends a batch, so does its age or its size; different requests are not mixed.
#[test]
fn windows() {
    let mut batcher = Batcher::new(CREATE_FLEET);
    assert_eq!(batcher.next_due(), None);
    for millis in [0, 10, 20, 30, 34] {
        batcher.add("a", millis, at(millis));
    }
    batcher.add("b", 0, at(34));
    assert_eq!(sizes(&mut batcher, 68), []);
    assert_eq!(batcher.next_due(), Some(at(69)));
    assert_eq!(sizes(&mut batcher, 69), [("a", 5), ("b", 1)]);
    assert_eq!(batcher.next_due(), None);

    for millis in (0..1000).step_by(30) {
        batcher.add("a", millis, at(millis));
    }
    assert_eq!(batcher.next_due(), Some(at(1000)), "not for ever, however many come");
    let due = batcher.due(at(1000));
    assert_eq!((due[0].1.len(), due[0].2), (34, SignedDuration::from_secs(1)));

    for item in 0..1200 {
        batcher.add("a", item, at(0));
    }
    assert_eq!(sizes(&mut batcher, 0), [("a", 1000), ("a", 200)], "full at once, never larger than allowed");
    for (window, idle, most) in
        [(CREATE_FLEET, 35, 1000), (DESCRIBE_INSTANCES, 100, 500), (TERMINATE_INSTANCES, 100, 500)]
    {
        assert_eq!(
            (window.idle.as_millis(), window.longest.as_millis(), window.most),
            (idle, 1000, most),
            "{}",
            window.name
        );
    }
}

fn instance(id: &str) -> FleetInstance {
    FleetInstance { id: id.to_owned(), ..FleetInstance::default() }
}

/// AWS-195, AC-226: one each; the others get the errors, or a word that there were too few; the rest is nobody's.
#[test]
fn shares_of_a_fleet() {
    let error = FleetError { code: "InsufficientInstanceCapacity".to_owned(), ..FleetError::default() };
    let answer = |count: usize, errors: &[FleetError]| FleetAnswer {
        instances: (0..count).map(|at| instance(&format!("i-{at}"))).collect(),
        errors: errors.to_vec(),
    };
    let (shares, rest) = hand_out(answer(3, std::slice::from_ref(&error)), 5);
    let ids: BTreeSet<&str> = shares.iter().filter_map(|one| one.as_ref().ok()).map(|one| one.id.as_str()).collect();
    assert_eq!((ids.len(), rest.len()), (3, 0));
    assert_eq!(shares[3..], [Err(vec![error.clone()]), Err(vec![error])]);
    let (shares, _) = hand_out(answer(0, &[]), 1);
    let Err(errors) = &shares[0] else { panic!() };
    assert_eq!((errors[0].code.as_str(), errors[0].message.as_str()), (TOO_FEW, TOO_FEW));
    let given_up = crate::launch::failures::no_instance(errors);
    assert!(matches!(given_up, karpenter_platform::CreateError::Explained { reason, .. } if reason == "LaunchFailed"));
    let (shares, rest) = hand_out(answer(4, &[]), 3);
    assert!(shares.iter().all(Result::is_ok) && rest == [instance("i-3")]);
}

/// AWS-196, AC-227: what a common answer leaves out is asked for again, each once.
#[test]
fn what_an_answer_leaves_out() {
    let asked: Vec<String> = ["i-1", "i-2", "i-3", "i-2"].map(str::to_owned).to_vec();
    assert_eq!(missing(&asked, &BTreeSet::from(["i-1".to_owned()])), ["i-2", "i-3"]);
    assert_eq!(missing(&asked, &BTreeSet::new()), ["i-1", "i-2", "i-3"], "the call failed: all of them");
}
