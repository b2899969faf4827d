"""What a test has asked of its account beyond what moto keeps."""

import re
import threading
import time
from collections import defaultdict, deque

from . import policies

DEFAULT = "123456789012"


class Account:
    """One test's world. Tests change it through the control endpoint (control.py)."""

    def __init__(self):
        self.lock = threading.RLock()
        # [{"capacity_type": "spot"|"on-demand"|..., "instance_type": "m5.large", "zone": "us-west-2a"}], "*" matches all.
        self.no_capacity = []
        # [{"operation": "CreateFleet", "code": "...", "message": "...", "status": 503, "times": 1, "applied": false}]
        self.faults = []
        # [{"instance_type": .., "zone": .., "capacity_type": .., "code": .., "message": ..}]: errors of single overrides.
        self.fleet_errors = []
        self.reservations = []
        self.placement_groups = []
        self.parameters = {}
        self.prices = {}
        self.spot_prices = []
        # {"arn:...cluster/x": {"zonalShifts": [...], "autoshifts": [...]}}
        self.managed_resources = {}
        self.statuses = {}
        # Seconds an instance is pending, and seconds until a describe call knows of it.
        self.pending_for = 0.0
        self.hidden_for = 0.0
        # Seconds between terminate and terminated.
        self.shutting_down_for = 0.0
        # IAM statements of everyone but the owner; None lets everything pass.
        self.policy = None
        self.variables = {}
        # {"DescribeSubnets": 2}: that many pages without anything in them come before the answer.
        self.empty_pages = {}
        self.calls = deque(maxlen=200_000)
        self.denials = []
        # client token -> (request, answer) of CreateFleet
        self.tokens = {}
        self.instances = {}

    SETTINGS = (
        "no_capacity", "faults", "fleet_errors", "reservations", "placement_groups", "parameters", "prices", "spot_prices",
        "managed_resources", "statuses", "pending_for", "hidden_for", "shutting_down_for", "policy", "variables", "empty_pages",
    )

    def change(self, settings):
        settings = policies.resolved(settings)
        unknown = sorted(set(settings) - set(self.SETTINGS))
        if unknown:
            raise ValueError(f"unknown settings {', '.join(unknown)}; there are {', '.join(self.SETTINGS)}")
        with self.lock:
            for name, value in settings.items():
                setattr(self, name, value)

    def settings(self):
        return {name: getattr(self, name) for name in self.SETTINGS}

    def lacks_capacity(self, capacity_type, instance_type, zone):
        return any(
            row.get("capacity_type", "*") in ("*", capacity_type)
            and row.get("instance_type", "*") in ("*", instance_type)
            and row.get("zone", "*") in ("*", zone)
            for row in self.no_capacity
        )

    def fleet_error(self, capacity_type, instance_type, zone):
        for row in self.fleet_errors:
            if all(row.get(k, "*") in ("*", v) for k, v in
                   (("capacity_type", capacity_type), ("instance_type", instance_type), ("zone", zone))):
                return row
        return None

    def fault(self, operation, applied):
        """Takes the fault due for this call, if there is one."""
        with self.lock:
            for fault in self.faults:
                if fault["operation"] not in ("*", operation) or bool(fault.get("applied")) != applied:
                    continue
                if fault.get("skip", 0) > 0:
                    fault["skip"] -= 1
                    continue
                left = fault.get("times", 1)
                if left == 0:
                    continue
                if left > 0:
                    fault["times"] = left - 1
                return dict(fault)
        return None

    def record(self, service, operation, detail):
        with self.lock:
            self.calls.append({"at": time.time(), "service": service, "operation": operation, **detail})


_accounts = defaultdict(Account)
_lock = threading.Lock()


def account(number):
    with _lock:
        return _accounts[str(number)]


def forget(number):
    with _lock:
        _accounts.pop(str(number), None)


def is_owner(access_key):
    """Keys that begin so are the tests' own: neither the account's policy nor its faults are for them."""
    return (access_key or "").startswith("OWNER")


def number_of(access_key):
    """An access key with twelve digits in it names its account, so that any client can choose one without a header."""
    digits = re.search(r"\d{12}", access_key or "")
    return digits.group(0) if digits else DEFAULT
