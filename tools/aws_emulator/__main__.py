"""python3 -m aws_emulator [--port N] [--while-stdin]: serves until it is ended; prints `listening on http://127.0.0.1:PORT`."""

import argparse
import io
import json
import os
import sys
import threading
import time

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from . import accounts, authoriser, control, fleets, instances, metadata, pages, services, signed_request, templates

# The same for everyone and slow to make.
_STATIC = {"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"}


class Application:
    def __init__(self, inner):
        self.inner = inner
        self.static = {}

    def __call__(self, environ, start):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if environ["PATH_INFO"].startswith("/_test/"):
            status, value = control.answer(environ, body)
            return _json(start, status, value)
        if metadata.is_asked(environ):
            return metadata.answer(environ, start)
        request = signed_request.parse(environ, body)
        if request is None:
            return self.inner(environ, start)
        number = environ.get("HTTP_X_MOTO_ACCOUNT_ID") or accounts.number_of(request.access_key)
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = number
        account = accounts.account(number)
        account.record(request.service, request.operation, {
            "dry_run": request.parameters.get("DryRun") == "true", "region": request.region,
            "page_size": request.parameters.get("MaxResults") or request.parameters.get("MaxItems"),
            **({"include_deprecated": request.parameters.get("IncludeDeprecated")} if request.operation == "DescribeImages" else {}),
            "user_agent": environ.get("HTTP_USER_AGENT", ""),
            **({"parameters": request.parameters} if request.service == "sqs" else {})})
        if accounts.is_owner(request.access_key):
            return self.answer(environ, account, request, body).send(start)
        denied = authoriser.refusal(account, number, request)
        if denied:
            account.denials.append(denied)
            code = "AccessDenied" if request.service in ("iam", "sts") else "UnauthorizedOperation" if request.service == "ec2" else "AccessDeniedException"
            return _error(start, request, code, denied["message"], 403)
        fault = account.fault(request.operation, applied=False)
        if fault:
            return _fail(start, request, fault)
        answer = self.answer(environ, account, request, body)
        fault = account.fault(request.operation, applied=True)
        if fault:
            return _fail(start, request, fault)
        return answer.send(start)

    def answer(self, environ, account, request, body):
        empty, body = pages.before(account, environ, request, body)
        if empty:
            return Answer(*empty)
        if request.operation in _STATIC and request.parameters.get("DryRun") == "true":
            return Answer(*signed_request.error(request, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412))
        if request.service == "pricing":
            value = services.pricing(account, request)
            if value is not None:
                return Answer.of_json(value)
        if request.service == "arc-zonal-shift":
            value = services.zonal_shift(account, request)
            if value is None:
                return Answer(*signed_request.error(request, "ResourceNotFoundException", "the resource is not managed", 404))
            return Answer.of_json(value)
        key = (request.operation, request.region, body) if request.operation in _STATIC else None
        if key in self.static:
            return self.static[key]
        answer = Answer.of_application(self.inner, environ)
        if key and answer.status.startswith("200"):
            self.static[key] = answer
        return answer


class Answer:
    """A whole answer, kept so that a fault can take its place after the work was done."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, [body] if isinstance(body, bytes) else body

    @classmethod
    def of_json(cls, value):
        body = json.dumps(value).encode()
        return cls("200 OK", [("content-type", "application/x-amz-json-1.1"), ("content-length", str(len(body)))], body)

    @classmethod
    def of_application(cls, application, environ):
        said = {}

        def start(status, headers, _=None):
            said["status"], said["headers"] = status, headers
        parts = application(environ, start)
        try:
            body = b"".join(parts)
        finally:
            close = getattr(parts, "close", None)
            if close:
                close()
        return cls(said["status"], said["headers"], body)

    def send(self, start):
        start(self.status, self.headers)
        return self.body


def _json(start, status, value):
    body = json.dumps(value, default=str).encode()
    start(status, [("content-type", "application/json"), ("content-length", str(len(body)))])
    return [body]


def _error(start, request, code, message, status):
    line, headers, body = signed_request.error(request, code, message, status)
    start(line, headers)
    return [body]


def _fail(start, request, fault):
    if fault.get("delay"):
        time.sleep(fault["delay"])
    code = fault.get("code", "InternalError")
    return _error(start, request, code, fault.get("message", code), fault.get("status", 500))


def main():
    parser = argparse.ArgumentParser(description="AWS APIs for tests: moto with what it lacks.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--while-stdin", action="store_true", help="end when standard input does, so that no test leaves it behind")
    options = parser.parse_args()
    port = options.port
    if options.while_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    for part in (instances, fleets, services, templates):
        part.install()
    inner = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", port, Application(inner), threaded=True, request_handler=QuietHandler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


def _end_with_stdin():
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


class QuietHandler(MotoRequestHandler):
    def log_request(self, *_):
        pass


if __name__ == "__main__":
    main()
