"""What an instance can ask of itself (IMDSv2): only its region."""

REGION = "us-west-2"


def is_asked(environ):
    return environ["PATH_INFO"].startswith(("/latest/api/token", "/latest/meta-data/"))


def answer(environ, start):
    path = environ["PATH_INFO"]
    if path == "/latest/api/token" and environ["REQUEST_METHOD"] == "PUT":
        return _text(start, "200 OK", "metadata-token", [("x-aws-ec2-metadata-token-ttl-seconds", "21600")])
    if environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN") != "metadata-token":
        return _text(start, "401 Unauthorized", "")
    if path == "/latest/meta-data/placement/region":
        return _text(start, "200 OK", REGION)
    return _text(start, "404 Not Found", "")


def _text(start, status, text, headers=()):
    body = text.encode()
    start(status, [("content-type", "text/plain"), ("content-length", str(len(body))), *headers])
    return [body]
