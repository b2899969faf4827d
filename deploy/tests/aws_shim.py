"""A command `aws` that is enough for the guides: options become parameters by the service's model, and are checked by it; the call
goes to the emulator. What the emulator lacks is only checked.

The command itself is a few lines that ask this process over HTTP, since loading the AWS library takes longer than all else.
"""

import json
import re
import sys
import threading
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import jmespath
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

# Not in moto.
ABSENT = {"CreateAccessEntry", "DeleteAccessEntry", "CreateServiceLinkedRole"}
PROGRAM = f"""#!{sys.executable} -IS
import json, os, sys, urllib.request
asked = json.dumps({{"arguments": sys.argv[1:], "folder": os.getcwd()}}).encode()
with urllib.request.urlopen("URL", data=asked) as answer:
    said = json.load(answer)
print(said["said"], end="", file=sys.stderr if said["code"] else sys.stdout)
sys.exit(said["code"])
"""


class Usage(Exception):
    pass


def usage(message):
    raise Usage(f"aws: {message}\n")


def value_of(shape, words, where, folder):
    """A value of a shape from words of the command line: JSON, file://, or the short form Key=a,Value=b."""
    if words and words[0].startswith("file://"):
        text = Path(folder, words[0].removeprefix("file://")).read_text()
        return text if shape.type_name == "string" else json.loads(text)
    if shape.type_name == "list":
        if words and words[0].startswith("["):
            return json.loads(words[0])
        return [value_of(shape.member, [word], where, folder) for word in words]
    if len(words) != 1:
        usage(f"{where} takes one value, not {words}")
    word = words[0]
    if shape.type_name in ("structure", "map"):
        if word.startswith("{"):
            return json.loads(word)
        pairs = re.findall(r"([\w.:/-]+)=((?:[^,]|,(?![\w.:/-]+=))*)", word)
        if shape.type_name == "map":
            return dict(pairs)
        unknown = [key for key, _ in pairs if key not in shape.members]
        if unknown or not pairs:
            usage(f"{where} has no {unknown or word}; there are {', '.join(shape.members)}")
        return {key: value_of(shape.members[key], text.split(",") if shape.members[key].type_name == "list" else [text], where, folder) for key, text in pairs}
    if shape.type_name in ("integer", "long"):
        return int(word)
    if shape.type_name == "boolean":
        return word == "true"
    return word


def options(words):
    found = {}
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = [value] if value else []
            last = name
        elif not found:
            usage(f"{word} belongs to no option")
        else:
            found[last].append(word)
    return found


class Aws:
    """The command line of one account."""

    def __init__(self, url="http://127.0.0.1:1", access_key="x", region="us-west-2"):
        self.client = lru_cache(lambda service: boto3.client(service, endpoint_url=url, region_name=region, aws_access_key_id=access_key, aws_secret_access_key="x"))

    def parse(self, arguments, folder="."):
        """(client, operation, parameters, what the command line itself takes)"""
        if len(arguments) < 2:
            usage("service and operation are missing")
        client = self.client(arguments[0])
        operation = {xform_name(n, "-"): n for n in client.meta.service_model.operation_names}.get(arguments[1])
        if not operation:
            usage(f"{arguments[0]} has no {arguments[1]}")
        shape = client.meta.service_model.operation_model(operation).input_shape
        members = {xform_name(n, "-"): (n, s) for n, s in (shape.members if shape else {}).items()}
        parameters, own = {}, {}
        for name, words in options(arguments[2:]).items():
            if name in ("query", "output", "region"):
                own[name] = words[0]
            elif name in members:
                parameters[members[name][0]] = value_of(members[name][1], words, f"--{name}", folder)
            else:
                usage(f"{arguments[0]} {arguments[1]} has no --{name}; there are {', '.join('--' + m for m in members)}")
        report = ParamValidator().validate(parameters, shape) if shape else None
        if report and report.has_errors():
            usage(report.generate_report())
        return client, operation, parameters, own

    def run(self, arguments, folder):
        client, operation, parameters, own = self.parse(arguments, folder)
        if operation in ABSENT:
            return ""
        try:
            answer = getattr(client, xform_name(operation))(**parameters)
        except ClientError as error:
            usage(str(error))
        answer.pop("ResponseMetadata", None)
        if "query" in own:
            answer = jmespath.search(own["query"], answer)
        if own.get("output") == "text":
            return ("\t".join(answer) if isinstance(answer, list) else str(answer)) + "\n"
        return json.dumps(answer, default=str) + "\n"

    def serve(self):
        """A server for PROGRAM; `shutdown` ends it."""
        aws = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                try:
                    said = {"code": 0, "said": aws.run(asked["arguments"], asked["folder"])}
                except Usage as error:
                    said = {"code": 1, "said": str(error)}
                body = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server
