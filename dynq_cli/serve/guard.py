"""Decide which requests are answered: those with the token, or, without a token, those that name this machine.

A page of the web that a browser on this machine shows can let its own host name resolve to 127.0.0.1, and would then
read the answers. Its requests carry that name as `Host`, so without a token only loopback names are answered.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dynq_cli.serve.answers import refusal


class Guard:
    """Let requests through that have the token, or that name a loopback address if there is no token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = None
        if scope["type"] == "http" and scope["path"] != "/healthz":
            headers = dict(scope["headers"])
            refused = self._refusal(headers.get(b"authorization", b""), headers.get(b"host", b""))
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, authorization: bytes, host: bytes) -> Response | None:
        if self._token:
            if hmac.compare_digest(_token_in(authorization), self._token):
                return None
            asked = {"WWW-Authenticate": 'Bearer, Basic realm="dynq: the token as password"'}
            return refusal("unauthorized", "a valid token is needed", 401, asked)
        named = host_of(host.decode("latin-1"))
        if is_loopback(named):
            return None
        told = f"Host {named[:80]!r} is no name of this machine\nhint: ask 127.0.0.1, or serve with --token-file"
        return refusal("host", told, 403)


def _token_in(authorization: bytes) -> bytes:
    """Return the token of a Bearer header, or the password of a Basic one, which is what browsers ask people for.

    >>> _token_in(b"Bearer abc"), _token_in(b"Basic bWU6YWJj"), _token_in(b"Basic ?")
    (b'abc', b'abc', b'')
    """
    kind, _, given = authorization.partition(b" ")
    if kind.lower() == b"basic":
        try:
            return base64.b64decode(given.strip(), validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return given.strip() if kind.lower() == b"bearer" else b""


def host_of(header: str) -> str:
    """Return the host that a Host header names, without the port.

    >>> host_of("localhost:8080"), host_of("[::1]:80"), host_of("::1")
    ('localhost', '::1', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    host, _, port = header.rpartition(":")
    return host if port.isdecimal() and ":" not in host else header


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine, whatever a name server says."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
