"""The controller's own policies, from deploy/iam: {"policy_of": {"cluster": "one", "account": "123456789012", "region": "us-west-2"}}
in an account's settings makes them its policy, with the statements of `policy`, if there are any, besides. `node_role` and `queue` are
names; those of the guides by default."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ways"))
import iam


def resolved(settings):
    """Settings with statements in the place of `policy_of`."""
    said = settings.get("policy_of")
    if said is None:
        return settings
    missing = [name for name in ("cluster", "account") if not said.get(name)]
    if missing:
        raise ValueError(f"policy_of lacks {', '.join(missing)}")
    cluster, account, region = said["cluster"], said["account"], said.get("region", "us-west-2")
    values = {"partition": "aws", "region": region, "account_id": account, "cluster_name": cluster,
              "node_role_arn": f"arn:aws:iam::{account}:role/{said.get('node_role', f'KarpenterNodeRole-{cluster}')}",
              "queue_arn": f"arn:aws:sqs:{region}:{account}:{said.get('queue', cluster)}"}
    statements = [s for policy in iam.controller_policies().values() for s in iam.fill(policy, values)["Statement"]]
    return {**{k: v for k, v in settings.items() if k != "policy_of"}, "policy": statements + settings.get("policy", [])}
