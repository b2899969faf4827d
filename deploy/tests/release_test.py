"""`make release` but for compiling: a small program stands for both of ours."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

import yaml
from account import ROOT

sys.path.insert(0, str(ROOT / "tools" / "release"))
import image

VERSION = re.search(r'\[workspace.package\]\nversion = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]


def setUpModule():
    global folder, out
    folder = Path(tempfile.mkdtemp(prefix="karpenter-release-"))
    programs, out = folder / "programs", folder / "out"
    programs.mkdir()
    for name in ("karpenter", "karpenter-controller"):
        stand_in(programs / name, f"{name} {VERSION}")
    release(programs, out)


def stand_in(path, says):
    """A program that says this, whatever it is asked."""
    code = f'#include <stdio.h>\nint main(void) {{ puts("{says}"); return 0; }}\n'
    subprocess.run(["cc", "-x", "c", "-", "-o", path], input=code, text=True, check=True)


def tearDownModule():
    shutil.rmtree(folder)


def release(programs, to):
    subprocess.run([ROOT / "tools/release.sh", to], env={**os.environ, "RELEASE_PROGRAMS": str(programs)}, check=True, capture_output=True, text=True)


class Release(unittest.TestCase):
    def only(self, pattern):
        [file] = out.glob(pattern)
        return file

    def test_all_parts_are_there_and_checksums_hold(self):
        machine = image.ARCHITECTURES[os.uname().machine]
        names = {f"karpenter-{VERSION}-linux-{machine}.tar.gz", f"karpenter-controller-{VERSION}-linux-{machine}.oci.tar", f"karpenter-{VERSION}.tgz",
                 f"karpenter-crd-{VERSION}.tgz", f"karpenter-crds-{VERSION}.yaml", f"karpenter-cloudformation-{VERSION}.yaml", f"karpenter-iam-{VERSION}.tar.gz",
                 f"karpenter-{VERSION}.cdx.json"}
        self.assertEqual({f.name for f in out.iterdir()}, names | {"SHA256SUMS"})
        sums = dict(reversed(line.split()) for line in (out / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {n: hashlib.sha256((out / n).read_bytes()).hexdigest() for n in names})

    def test_a_second_release_is_the_same(self):
        release(folder / "programs", folder / "again")
        self.assertEqual((folder / "again/SHA256SUMS").read_text(), (out / "SHA256SUMS").read_text())

    def test_programs_of_another_version_are_refused(self):
        """Those of an older checkout, say."""
        programs = folder / "older"
        programs.mkdir()
        for name in ("karpenter", "karpenter-controller"):
            stand_in(programs / name, f"{name} 0.0.1")
        done = subprocess.run([ROOT / "tools/release.sh", folder / "refused"], env={**os.environ, "RELEASE_PROGRAMS": str(programs)}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"is karpenter 0.0.1, not version {VERSION}", done.stderr)

    def test_the_archive_holds_programs_that_run(self):
        machine = image.ARCHITECTURES[os.uname().machine]
        name = f"karpenter-{VERSION}-linux-{machine}"
        with tarfile.open(out / f"{name}.tar.gz") as archive:
            archive.extractall(folder / "archive", filter="data")
        for program in ("karpenter", "karpenter-controller"):
            done = subprocess.run([folder / "archive" / name / program, "--version"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, f"{program} {VERSION}\n"))

    def test_a_folder_with_something_in_it_is_refused(self):
        done = subprocess.run([ROOT / "tools/release.sh", out], env={**os.environ, "RELEASE_PROGRAMS": str(folder / "programs")}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not empty", done.stderr)

    def test_charts_carry_the_version(self):
        for name in ("karpenter", "karpenter-crd"):
            with tarfile.open(out / f"{name}-{VERSION}.tgz") as archive:
                chart = yaml.safe_load(archive.extractfile(f"{name}/Chart.yaml"))
            self.assertEqual((chart["version"], chart["appVersion"]), (VERSION, VERSION))

    def test_definitions_are_all_of_them(self):
        kinds = {o["spec"]["names"]["kind"] for o in yaml.safe_load_all(self.only("karpenter-crds-*").read_text()) if o}
        self.assertLessEqual({"NodePool", "NodeClaim", "NodeOverlay", "EC2NodeClass"}, kinds)

    def test_policies_render_from_the_archive(self):
        with tarfile.open(self.only("karpenter-iam-*")) as archive:
            archive.extractall(folder / "iam", filter="data")
        done = subprocess.run([folder / f"iam/karpenter-iam-{VERSION}/render.sh", "controller/eks-integration"], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "CLUSTER_NAME": "demo", "AWS_REGION": "us-west-2", "AWS_ACCOUNT_ID": "123456789012"})
        self.assertEqual(json.loads(done.stdout)["Statement"][0]["Resource"], "arn:aws:eks:us-west-2:123456789012:cluster/demo")

    def test_the_bill_of_materials_names_what_is_linked_and_not_what_tests_use(self):
        bill = json.loads(self.only("*.cdx.json").read_text())
        found = {c["name"]: c for c in bill["components"]}
        self.assertEqual(found["karpenter-operator"]["version"], VERSION)
        self.assertIn("kube-client", found)
        self.assertNotIn("proptest", found)
        self.assertEqual([n for n, c in found.items() if "licenses" not in c], [])
        references = {c["bom-ref"] for c in bill["components"]}
        for row in bill["dependencies"]:
            self.assertLessEqual(set(row["dependsOn"]), references)


class Image(unittest.TestCase):
    def setUp(self):
        [file] = out.glob("*.oci.tar")
        with tarfile.open(file) as archive:
            self.blobs = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}
        index = json.loads(self.blobs["index.json"])
        self.manifest = self.blob(index["manifests"][0])
        self.config = self.blob(self.manifest["config"])

    def content(self, descriptor):
        found = self.blobs["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        self.assertEqual((len(found), "sha256:" + hashlib.sha256(found).hexdigest()), (descriptor["size"], descriptor["digest"]))
        return found

    def blob(self, descriptor):
        return json.loads(self.content(descriptor))

    def test_it_runs_as_nobody_and_says_what_it_is(self):
        self.assertEqual(self.config["config"]["User"], "65532:65532")
        self.assertEqual(self.config["config"]["Entrypoint"], ["/karpenter-controller"])
        labels = self.config["config"]["Labels"]
        self.assertEqual(labels["org.opencontainers.image.version"], VERSION)
        self.assertRegex(labels["org.opencontainers.image.revision"], r"^[0-9a-f]{40}(-dirty)?$")

    def test_the_program_runs_on_what_the_image_holds(self):
        [layer] = self.manifest["layers"]
        root = folder / "root"
        with tarfile.open(fileobj=io.BytesIO(self.content(layer))) as archive:
            members = archive.getmembers()
            archive.extractall(root, filter="fully_trusted")
        # No setuid, nothing that anyone may write, no shell.
        self.assertEqual([m.name for m in members if m.mode & 0o6022 and not m.issym()], [])
        self.assertEqual([m.name for m in members if Path(m.name).name in ("sh", "bash")], [])
        enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
        done = subprocess.run([*enter, root, "/karpenter-controller", "--version"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_dockerfile_makes_the_same(self):
        text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
        stages = re.split(r"(?m)^FROM ", text)[1:]
        self.assertEqual(len(stages), 2)
        rust = re.search(r'rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]
        self.assertTrue(stages[0].startswith(f"rust:{rust}-"), "the compiler is not the one of Cargo.toml")
        self.assertIn("cargo build --locked --release --bin karpenter-controller", stages[0])
        last = stages[1]
        self.assertRegex(last, r"^gcr.io/distroless/\S+:nonroot\n")
        self.assertIn(f"USER {self.config['config']['User']}\n", last)
        self.assertIn(f"ENTRYPOINT {json.dumps(self.config['config']['Entrypoint'])}\n", last)
        ports = re.search(r"EXPOSE (.*)", last)[1].split()
        self.assertEqual({f"{p}/tcp" for p in ports}, set(self.config["config"]["ExposedPorts"]))
        self.assertNotRegex(text, r"(?m)^ADD |:latest")


if __name__ == "__main__":
    unittest.main()
