"""docs/guides-coverage.md has a row for every item of the guides, with a proof or a reason."""

import re
import unittest

from account import ROOT

STATES = {"shown", "in parts", "guide", "needs an account", "not built yet"}
# One item in a few words, its state, and what is said for it.
ROW = re.compile(r"^\| (SEED-\d+-\d+) \| (.+?) \| ([a-z ]+) \| (.+) \|$", re.MULTILINE)


class Coverage(unittest.TestCase):
    def setUp(self):
        self.rows = ROW.findall((ROOT / "docs/guides-coverage.md").read_text())

    def test_every_item_has_one_row(self):
        rules = re.findall(r"^(SEED-\d+-\d+)\t", (ROOT / "docs/spec-rules.txt").read_text(), re.MULTILINE)
        self.assertEqual([item for item, *_ in self.rows], rules)

    def test_every_row_has_a_proof_or_a_reason(self):
        for item, _, state, why in self.rows:
            with self.subTest(item):
                self.assertIn(state, STATES)
                files = re.findall(r"`((?:crates|deploy|modules|examples|cdk|docs)/[\w./-]+)`", why)
                for file in files:
                    self.assertTrue((ROOT / file).exists(), file)
                if state in ("shown", "in parts", "guide"):
                    self.assertTrue(files, "no file is named")

    def test_a_required_item_is_not_missing(self):
        """What spec-rules.txt asks of tests cannot be said here to be missing."""
        required = set(re.findall(r"^(SEED-\d+-\d+)\trequired\t", (ROOT / "docs/spec-rules.txt").read_text(), re.MULTILINE))
        missing = {item for item, _, state, _ in self.rows if state in ("not built yet", "needs an account")}
        self.assertEqual(required & missing, set())


if __name__ == "__main__":
    unittest.main()
