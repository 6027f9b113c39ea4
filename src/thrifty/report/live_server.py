"""Serve the live page on this machine alone: the loopback address, a secret token in the address, reading only.

    GET /?token=…           the page
    GET /content?token=…    its content, as HTML

Everything else is refused: 403 without the token or with the name of another host (a page of another site could have
its name resolved to this machine), 404 for other paths, 501 for other methods. The server holds texts that it was
given; it opens no file and knows no folder.
"""

from __future__ import annotations

import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from thrifty.errors import ConfigError

LOOPBACK = "127.0.0.1"
MAX_WAIT_SECONDS = 10.0  # for a request to be written: a client that says nothing must not hold a thread for long


class LiveServer:
    """A small web server in a thread; `with LiveServer() as server:` starts and ends it.

    Attributes:
        token: Secret, new for every server.
        nonce: Marks the one script that the page may run.
        page, content: What is served; set them at any time.
        ended: Set when a reader has fetched content after `finish`.
    """

    def __init__(self, port: int = 0) -> None:
        self.token, self.nonce = secrets.token_urlsafe(24), secrets.token_urlsafe(16)
        self.page = self.content = ""
        self.finishing, self.ended = threading.Event(), threading.Event()
        try:
            self._server = _Server((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"cannot listen on {LOOPBACK}:{port}: {reason}", code="bad-setting", fix="another --port, or none"
            ) from None
        self._server.live = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def hosts(self) -> tuple[str, str]:
        """Names under which a browser may ask for this server."""
        port = self._server.server_address[1]
        return f"{LOOPBACK}:{port}", f"localhost:{port}"

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://{self.hosts[0]}/?token={self.token}"

    def finish(self, content: str, seconds: float) -> None:
        """Serve the last content until a reader has fetched it, or for some seconds."""
        self.content = content
        self.finishing.set()
        self.ended.wait(seconds)

    def __enter__(self) -> LiveServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    live: LiveServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[assignment]
    timeout = MAX_WAIT_SECONDS
    server_version, sys_version = "thrifty", ""

    def do_GET(self) -> None:
        """Answer with the page or its content, where host and token are right."""
        live, asked = self.server.live, urlsplit(self.path)
        given = parse_qs(asked.query).get("token", [""])[0]
        known = secrets.compare_digest(given.encode(), live.token.encode())
        if self.headers.get("Host") not in live.hosts or not known:
            self._answer(HTTPStatus.FORBIDDEN, "Open the address that thrifty report --live has printed.")
        elif asked.path == "/":
            self._answer(HTTPStatus.OK, live.page)
        elif asked.path == "/content":
            last = live.finishing.is_set()
            self._answer(HTTPStatus.OK, live.content)
            if last:
                live.ended.set()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _answer(self, status: HTTPStatus, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        kind = "text/html" if status == HTTPStatus.OK else "text/plain"
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": (
                f"default-src 'none'; script-src 'nonce-{self.server.live.nonce}'; connect-src 'self';"
                " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the address holds the token."""
