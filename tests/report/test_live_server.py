"""The server of the live page: this machine alone, the right token, the right name, reading only; in a real browser."""

from __future__ import annotations

import http.client
import re
import threading

import pytest
from test_browser import BROWSER, BROWSERS, browse, console

from thrifty.errors import ConfigError
from thrifty.report.live_page import LivePage
from thrifty.report.live_server import LOOPBACK, LiveServer


@pytest.fixture
def server():
    with LiveServer() as made:
        made.page, made.content = "<p>the page</p>", "<p>the content</p>"
        yield made


def ask(server: LiveServer, path: str, *, host: str = "", method: str = "GET") -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(*server.hosts[0].split(":"), timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or server.hosts[0])
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


def test_the_page_and_its_content(server):
    for path, text in (("/", "<p>the page</p>"), ("/content", "<p>the content</p>")):
        status, body, headers = ask(server, f"{path}?token={server.token}")
        assert (status, body) == (200, text)
        assert headers["Cache-Control"] == "no-store" and "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer", "the token must not leave with a link"
    assert ask(server, f"/content?token={server.token}", host=server.hosts[1])[0] == 200  # localhost


@pytest.mark.parametrize("path", ["/", "/content", "/store.sqlite"])
def test_no_answer_without_the_token(server, path):
    for query in ("", "?token=", f"?token={server.token[:-1]}", f"?token={server.token}x", "?token=é", "?other=1"):
        status, body, _ = ask(server, path + query.encode("ascii", "replace").decode())
        assert status == 403 and "the page" not in body and "the content" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "[::1]:80"])
def test_a_name_of_another_site_is_refused(server, host):
    """A page of another site whose name was made to point here (DNS rebinding) sends its own name as the host."""
    assert ask(server, f"/?token={server.token}", host=host)[0] == 403


def test_nothing_else_is_served(server):
    for path in ("/store.sqlite", "/../store.sqlite", "/%2e%2e/etc/passwd", "//etc/passwd"):
        assert ask(server, f"{path}?token={server.token}")[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, f"/?token={server.token}", method=method)[0] == 501


def test_it_listens_to_this_machine_alone(server):
    assert server._server.server_address[0] == LOOPBACK == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", server.address)
    with LiveServer() as other:
        assert other.token != server.token


def test_a_port_in_use_is_explained(server):
    with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1:\d+"):
        LiveServer(int(server.hosts[0].split(":")[1]))


def test_the_end_waits_for_a_reader_and_not_for_ever(server):
    threading.Timer(0.2, lambda: ask(server, f"/content?token={server.token}")).start()
    server.finish("<p>the end</p>", 30)
    assert server.ended.is_set() and server.content == "<p>the end</p>"
    with LiveServer() as nobody:
        nobody.finish("<p>the end</p>", 0.01)
        assert not nobody.ended.is_set()


def test_no_answer_after_the_end():
    with LiveServer() as made:
        made.page = "x"
    with pytest.raises(OSError, match="refused"):
        ask(made, f"/?token={made.token}")


@pytest.mark.skipif(BROWSER is None, reason=f"no browser found (looked for {', '.join(BROWSERS)})")
def test_a_browser_shows_what_changes(stages, tmp_path):
    """The page asks again: it shows what was put there after it was loaded, then that the run has ended."""
    page = LivePage(stages["half"])
    with LiveServer() as server:
        first = page.render("running")
        server.content, server.page = first, page.frame(server.token, server.nonce, 0.5)
        asked = server.content
        fetched = threading.Event()

        class Changing(str):
            """Content that changes when it is first read."""

            def encode(self, *more):  # type: ignore[override]
                if not fetched.is_set():
                    fetched.set()
                    server.content = page.render("complete")
                return super().encode(*more)

        server.content = Changing(asked)
        flags = ("--dump-dom", "--virtual-time-budget=15000", "--disable-quic")
        rules = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
        dom, err = browse(server.address, tmp_path / "b", *flags, rules)
    assert fetched.is_set(), "the script asked for the content"
    assert "The run has ended." in dom and "Running." in first
    assert console(err) == []
    assert 'role="progressbar"' in dom and "effective runs" in dom and "What a run costs" in dom
