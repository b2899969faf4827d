"""The control endpoint of tests: /_test/<account>[/what].

GET  /_test/<account>              the account's settings
POST /_test/<account>              change settings: {"no_capacity": [...], "faults": [...], ...}
DELETE /_test/<account>            forget settings and calls (moto's own state stays; POST /moto-api/reset clears that)
GET  /_test/<account>/calls        the calls so far, oldest first; ?clear=1 empties the list
GET  /_test/<account>/denials      calls that the IAM authoriser refused; ?clear=1 empties the list
GET  /_test/<account>/instances    what launch templates gave instances beyond what DescribeInstances shows
GET  /_test/<account>/credentials  as the EKS Pod Identity agent gives them; the token is counted as a call
POST /_test/<account>/call         {"service": "sqs", "operation": "create_queue", "parameters": {...}}: any call, as boto3 names it, by
                                   the account's owner; "region" for another one
POST /_test/<account>/stop         {"instance_ids": [...], "state": "terminated"}: an instance goes behind everyone's back
"""

import json
import urllib.parse

import boto3
from botocore.exceptions import ClientError

from . import accounts, instances, metadata


def answer(environ, body):
    """(status line, value)"""
    parts = environ["PATH_INFO"].strip("/").split("/")
    if len(parts) not in (2, 3):
        return "404 Not Found", {"error": "use /_test/<account>[/calls|denials|instances|credentials|call|stop]"}
    number, what = parts[1], (parts[2] if len(parts) == 3 else "")
    account = accounts.account(number)
    method = environ["REQUEST_METHOD"]
    try:
        value = json.loads(body) if body else {}
    except ValueError as e:
        return "400 Bad Request", {"error": f"not JSON: {e}"}
    query = dict(urllib.parse.parse_qsl(environ.get("QUERY_STRING", "")))
    if what == "" and method == "GET":
        return "200 OK", account.settings()
    if what == "" and method == "POST":
        try:
            account.change(value)
        except ValueError as e:
            return "400 Bad Request", {"error": str(e)}
        return "200 OK", account.settings()
    if what == "" and method == "DELETE":
        accounts.forget(number)
        return "200 OK", {}
    if what == "calls" and method == "GET":
        with account.lock:
            calls = list(account.calls)
            if query.get("clear"):
                account.calls.clear()
        return "200 OK", calls
    if what == "denials" and method == "GET":
        with account.lock:
            denials = list(account.denials)
            if query.get("clear"):
                account.denials.clear()
        return "200 OK", denials
    if what == "instances" and method == "GET":
        return "200 OK", account.instances
    if what == "credentials" and method == "GET":
        account.record("pod-identity", "GetCredentials", {"token": environ.get("HTTP_AUTHORIZATION", "")})
        return "200 OK", {"AccessKeyId": f"POD{number}", "SecretAccessKey": "pod-secret", "Token": "pod-session",
                          "AccountId": number, "Expiration": "2099-01-01T00:00:00Z"}
    if what == "call" and method == "POST":
        client = boto3.client(value["service"], endpoint_url=f"http://{environ['HTTP_HOST']}", region_name=value.get("region", metadata.REGION),
                              aws_access_key_id=f"OWNER{number}", aws_secret_access_key="secret")
        try:
            said = getattr(client, value["operation"])(**value.get("parameters", {}))
        except ClientError as e:
            return "400 Bad Request", {"error": str(e)}
        return "200 OK", {k: v for k, v in said.items() if k != "ResponseMetadata"}
    if what == "stop" and method == "POST":
        return "200 OK", {"changed": instances.put_into_state(number, value.get("instance_ids", []), value.get("state", "terminated"))}
    return "405 Method Not Allowed", {"error": f"{method} is not for {environ['PATH_INFO']}"}
