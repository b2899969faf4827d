"""Pages without anything in them, which real services send before a full one (AWS-254)."""

import io
import json
import urllib.parse

_PREFIX = "emptypage"
# How each service asks for and hands out the next page.
_TOKENS = {"ec2": "NextToken", "iam": "Marker", "pricing": "NextToken"}


def before(account, environ, request, body):
    """(an empty page or None, the body of the request without its token)"""
    wanted = account.empty_pages.get(request.operation, 0)
    key = _TOKENS.get(request.service)
    if not key:
        return None, body
    token = request.parameters.get(key) or ""
    done = int(token.removeprefix(_PREFIX)) if token.startswith(_PREFIX) else 0
    if done < wanted:
        return _page(request, f"{_PREFIX}{done + 1}"), body
    if token.startswith(_PREFIX):
        body = _without(request, key, body)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
    return None, body


def _without(request, key, body):
    if request.json:
        return json.dumps({k: v for k, v in json.loads(body).items() if k != key}).encode()
    pairs = urllib.parse.parse_qsl(body.decode(), keep_blank_values=True)
    return urllib.parse.urlencode([(k, v) for k, v in pairs if k != key]).encode()


def _page(request, token):
    name = request.operation
    if request.json:
        body, kind = json.dumps({"NextToken": token}), "application/x-amz-json-1.1"
    elif request.service == "iam":
        body = (f"<{name}Response><{name}Result><InstanceProfiles/><IsTruncated>true</IsTruncated><Marker>{token}</Marker>"
                f"</{name}Result></{name}Response>")
        kind = "text/xml"
    else:
        body, kind = f"<{name}Response><requestId>x</requestId><nextToken>{token}</nextToken></{name}Response>", "text/xml"
    body = body.encode()
    return "200 OK", [("content-type", kind), ("content-length", str(len(body)))], body
