//! `karpenter demo`: what it prints.

use crate::{folder, karpenter};

/// The whole story as plain text: the same for the same seed, every stage in its place.
#[test]
fn the_demo_goes_up_and_down() {
    let folder = folder(&[]);
    let run = karpenter(folder.path(), &["demo"], b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(!run.out.contains('\x1b'), "no colours without a terminal:\n{}", run.out);
    let mut rest = run.out.as_str();
    for stage in [
        "seed 1: the NodePool default",
        "   time  pods run  nodes  $/hour  what happens\n",
        "-- scale inflate to 5\n",
        "5 pods wait for a node: ",
        "nodeclaim default-",
        " is launched: ",
        " joined\n",
        " ready\n",
        "5 of 5 pods run\n",
        "-- scale inflate to 50\n",
        "pods wait for a node: ",
        " is launched: ",
        "50 of 50 pods run\n",
        "-- scale inflate to 0\n",
        "no pod runs any more\n",
        ": empty\n",
        " draining\n",
        " terminated\n",
        " gone\n",
        "everything is gone again\n",
    ] {
        let at = rest.find(stage).unwrap_or_else(|| panic!("no {stage:?} in its place:\n{}", run.out));
        rest = &rest[at + stage.len()..];
    }
    assert_eq!(rest, "", "and nothing after that");
    let last = run.out.lines().last().unwrap();
    assert!(last.contains(" 0/0 ") && last.contains(" 0.000 "), "nothing is paid for any more: {last}");
    assert_eq!(karpenter(folder.path(), &["demo"], b"").out, run.out, "one seed, one story");
    assert_ne!(karpenter(folder.path(), &["demo", "--seed", "2"], b"").out, run.out);
}
