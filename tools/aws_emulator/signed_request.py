"""What a signed request asks for: service, operation, parameters; and errors in the form that service's clients read."""

import json
import re
import urllib.parse
import uuid
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_SCOPE = re.compile(r"Credential=([^/,\s]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
# Operations of REST services that are called here: method, path, name.
_REST = {
    "eks": [("GET", re.compile(r"^/clusters/[^/]+$"), "DescribeCluster")],
    "arc-zonal-shift": [("GET", re.compile(r"^/managedresources/.+$"), "GetManagedResource")],
}


@dataclass
class Request:
    service: str
    region: str
    access_key: str
    operation: str
    parameters: dict = field(default_factory=dict)
    json: bool = False


def parse(environ, body):
    """None for what is not signed (moto's own endpoints)."""
    scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    if not scope:
        return None
    access_key, _, region, service = scope.groups()
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        try:
            parameters = json.loads(body or b"{}")
        except ValueError:
            parameters = {}
        return Request(service, region, access_key, target.rsplit(".", 1)[-1], parameters, json=True)
    for method, path, operation in _REST.get(service, []):
        if environ["REQUEST_METHOD"] == method and path.match(environ["PATH_INFO"]):
            return Request(service, region, access_key, operation, {"path": environ["PATH_INFO"]}, json=True)
    form = dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    form.update(urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    rest = service in _REST or service == "eks"
    return Request(service, region, access_key, form.get("Action", environ["REQUEST_METHOD"] + " " + environ["PATH_INFO"]), form, rest)


def list_of(parameters, prefix):
    """The members of a query list: prefix.1, prefix.2, … as values or as dictionaries of what follows."""
    found = {}
    for key, value in parameters.items():
        if not key.startswith(prefix + "."):
            continue
        head, _, rest = key[len(prefix) + 1:].partition(".")
        if not head.isdigit():
            continue
        if rest:
            found.setdefault(int(head), {})[rest] = value
        else:
            found[int(head)] = value
    return [found[n] for n in sorted(found)]


def error(request, code, message, status):
    """(status line, headers, body)"""
    identifier = str(uuid.uuid4())
    if request.json:
        body = json.dumps({"__type": code, "message": message, "Message": message})
        kind = "application/x-amz-json-1.1"
    elif request.service == "ec2":
        body = (f"<Response><Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
                f"<RequestID>{identifier}</RequestID></Response>")
        kind = "text/xml"
    else:
        body = (f"<ErrorResponse><Error><Type>Sender</Type><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
                f"<RequestId>{identifier}</RequestId></ErrorResponse>")
        kind = "text/xml"
    body = body.encode()
    headers = [("content-type", kind), ("content-length", str(len(body))), ("x-amzn-requestid", identifier)]
    if request.json:
        headers.append(("x-amzn-errortype", code))
    return f"{status} Error", headers, body
