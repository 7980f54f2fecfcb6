"""Access control of the dashboard, and crafted traces, tested as an attacker would."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mpiprof.dashboard import app as apps
from mpiprof.dashboard.trace_data import TraceContext
from support.dashboard_server import view
from support.dashboard_traces import SCRIPT, hostile, plain
from support.jobs import clean_environment
from support.wait_until import HANG_S

from mpiprof.interface.installation import install_command

TOKEN = "the-token"
HOST = "localhost:8765"
COOKIE = f"mpiprof-8765={TOKEN}"
PATHS = (
    "/",
    "/callsites",
    "/timeline",
    "/_dash-layout",
    "/_dash-dependencies",
    "/_favicon.ico",
    "/assets/style.css",
    "/assets/shell.js",
    "/_dash-component-suites/dash/deps/react@18.js",
    "/nowhere",
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the app on a hostile trace, with an empty allowed source folder."""
    folder = tmp_path_factory.mktemp("hostile")
    secret = folder / "secret"
    secret.mkdir()
    (secret / "key.py").write_text("TOPSECRET\n")
    allowed = folder / "allowed"
    allowed.mkdir()
    context = TraceContext([hostile(folder / "trace", secret / "key.py")], [allowed])
    return apps.make(context, TOKEN, ["127.0.0.1"])


@pytest.fixture
def client(app: Any) -> Any:
    """Return Flask's test client, without cookies."""
    return app.server.test_client(use_cookies=False)


def ask(client: Any, path: str, cookie: str = COOKIE, **headers: str) -> Any:
    """Return the answer to a GET."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"Host": HOST, "Cookie": cookie} | named
    return client.get(path, headers={k: v for k, v in named.items() if v})


def callback(client: Any, output: str, inputs: list[Any], states: list[Any], **headers: str) -> Any:
    """Return the answer to a callback of Dash."""

    def parts(of: list[Any]) -> list[dict[str, Any]]:
        return [dict(zip(("id", "property", "value"), one, strict=True)) for one in of]

    outputs: Any = [
        dict(zip(("id", "property"), one.rsplit(".", 1), strict=True))
        for one in output.strip(".").split("...")
    ]
    body = {
        "output": output,
        "outputs": outputs if output.startswith("..") else outputs[0],
        "inputs": parts(inputs),
        "state": parts(states),
        "changedPropIds": [f"{inputs[0][0]}.{inputs[0][1]}"],
    }
    named = {"Host": HOST, "Cookie": COOKIE} | {k.replace("_", "-"): v for k, v in headers.items()}
    return client.post("/_dash-update-component", json=body, headers=named)


def page(client: Any, path: str, search: str) -> str:
    """Return a page as it is sent to the browser."""
    inputs: list[Any] = [("url", "pathname", path), ("url", "search", search)]
    inputs += [("scheme", "data", "light"), ("version", "data", None), ("scripts", "data", None)]
    output = "..page.children...shown.data.."
    answer = callback(client, output, inputs, [("shown", "data", None)])
    assert answer.status_code == 200, answer.data
    return str(answer.data.decode())


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_the_token(client: Any, path: str) -> None:
    for cookie in ("", "mpiprof-8765=", "mpiprof-8765=the-toke", "mpiprof-1=the-token", "x=y"):
        answer = ask(client, path, cookie)
        assert answer.status_code == 403
        assert len(answer.data) < 200
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "x", "%00", "\u00e4"):
        assert ask(client, f"{path}?token={token}", "").status_code == 403
    assert client.post(path, headers={"Host": HOST}).status_code == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(client: Any) -> None:
    answer = ask(client, f"/callsites?callsite=3&token={TOKEN}&rank=0-3", "")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/callsites?callsite=3&rank=0-3"
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(COOKIE) and "HttpOnly" in cookie and "SameSite=Lax" in cookie
    assert ask(client, "/callsites?callsite=3").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "///evil.example"])
def test_the_redirection_stays_here(client: Any, path: str) -> None:
    answer = ask(client, f"{path}?token={TOKEN}", "")
    location = answer.headers.get("Location", "/")
    assert location.startswith("/") and not location.startswith(("//", "/\\"))


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "localhost.evil.example", "", "[", "127.0.0.1.nip.io"],
)
def test_other_names_are_refused_even_with_the_token(client: Any, host: str) -> None:
    answer = client.get("/", headers={"Host": host, "Cookie": COOKIE})
    assert answer.status_code in (400, 403)
    answer = client.get(f"/?token={TOKEN}", headers={"Host": host})
    assert answer.status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000"])
def test_forwarded_ports_and_addresses_are_served(client: Any, host: str) -> None:
    cookie = f"mpiprof-9000={TOKEN}"
    answer = client.get("/", headers={"Host": host, "Cookie": cookie})
    assert answer.status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://"])
def test_other_sites_are_refused(client: Any, origin: str) -> None:
    assert ask(client, "/_dash-layout", Origin=origin).status_code == 403
    answer = callback(client, "live.children", [("tick", "n_intervals", 1)], [], Origin=origin)
    assert answer.status_code == 403
    assert ask(client, "/_dash-layout", Sec_Fetch_Site="cross-site").status_code == 403
    assert ask(client, "/_dash-layout", Origin=f"http://{HOST}").status_code == 200


def test_a_link_from_elsewhere_opens_a_page_but_nothing_more(client: Any) -> None:
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(client, "/", **link).status_code == 200
    embedded = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
    assert ask(client, "/assets/style.css", **embedded).status_code == 403


def test_documents_carry_the_policy(client: Any) -> None:
    for path in ("/", "/callsites", "/_favicon.ico", "/no-such-page"):
        headers = ask(client, path).headers
        policy = headers["Content-Security-Policy"]
        script = next(part for part in policy.split("; ") if part.startswith("script-src"))
        assert "'unsafe-inline'" not in script and "'unsafe-eval'" not in script
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("path", ["/_dash-layout", "/assets/style.css", "/assets/shell.js"])
def test_scripts_styles_and_data_cannot_be_shown_as_documents(client: Any, path: str) -> None:
    headers = ask(client, path).headers
    assert headers["Content-Type"].partition(";")[0] in apps.NO_DOCUMENTS
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_the_page_names_no_other_host(client: Any) -> None:
    text = ask(client, "/").data.decode()
    assert "http://" not in text and "https://" not in text and "//cdn" not in text


def test_large_bodies_are_refused(client: Any) -> None:
    body = b"x" * (apps.BODY_LIMIT + 1)
    headers = {"Host": HOST, "Cookie": COOKIE, "Content-Type": "application/json"}
    answer = client.post("/_dash-update-component", data=body, headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path",
    ["/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/..%2fapp.py", "/assets//etc/passwd"],
)
def test_assets_are_only_those(client: Any, path: str) -> None:
    answer = ask(client, f"/assets/{path}")
    assert b"create_server" not in answer.data and b"root:x:" not in answer.data


STRANGE = (
    "",
    "?callsite=0",
    "?callsite=-5",
    "?callsite=99999999",
    "?callsite=0&instance=99999999",
    "?trace=../../etc",
    "?operation=" + "x" * 3000,
    "?node=a&node=b&rank=9-3,5-1,,-",
    "?of=nothing&p=9999999&bytes=-1&late=77",
    "?with=/etc/passwd",
    "?communicator=%00%ff",
    "?rank=0-99999999999999999999",
)


@pytest.mark.parametrize(
    "path", ["/", "/callsites", "/algorithms", "/compare", "/live", "/nowhere"]
)
def test_pages_survive_any_address(client: Any, path: str) -> None:
    for search in STRANGE:
        assert "This failed" not in page(client, path, search), search


@pytest.mark.heavy
def test_secrets_named_by_a_trace_are_not_shown(client: Any) -> None:
    sites = json.loads(page(client, "/callsites", ""))
    assert SCRIPT.split(">", 1)[0] in json.dumps(sites)
    for callsite in range(5):
        answer = page(client, "/callsites", f"?callsite={callsite}")
        assert "TOPSECRET" not in answer and "callsite-instance" in answer


# The whole server


def raw(port: int, request: bytes) -> bytes:
    """Return the first bytes of the answer to a raw request."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as connection:
        connection.sendall(request)
        return connection.recv(4096)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a running view of the plain trace."""
    folder = tmp_path_factory.mktemp("served")
    with view([plain(folder / "trace", 3)]) as running:
        yield running


def test_view_listens_locally_and_prints_the_address(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mpiprof", "view", plain(tmp_path / "t", 2), "--no-browser",
         "--port", "0"],
        stdout=subprocess.PIPE, text=True, env=clean_environment(),
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    try:
        assert lines[0].startswith("http://127.0.0.1:")
        port = lines[0].split(":")[2].split("/")[0]
        assert f"ssh -L {port}:localhost:{port} " in "".join(lines)
        inodes = Path("/proc/net/tcp").read_text().split("\n")
        listening = [line.split()[1] for line in inodes[1:] if line and line.split()[3] == "0A"]
        assert [f"0100007F:{int(port):04X}"] == [
            a for a in listening if a.endswith(f"{int(port):04X}")
        ]
    finally:
        process.terminate()
        process.wait(HANG_S)


@pytest.mark.heavy
def test_the_address_is_there_although_no_log_can_be_read(tmp_path: Path) -> None:
    """The page is served, and one line reports the unreadable logs."""
    folder = plain(tmp_path / "t", 2)
    for log in folder.glob("*.log"):
        log.write_bytes(b"damaged")
    words = [sys.executable, "-m", "mpiprof", "view", str(folder), "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        address = process.stdout.readline()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert "<title>mpiprof</title>" in opener.open(address, timeout=HANG_S).read().decode()
        line = process.stderr.readline()
        assert line.startswith(f"mpiprof: {folder}: none of its 8 logs can be read")
    finally:
        process.terminate()
        process.wait(HANG_S)


def test_a_folder_without_a_trace_is_reported_on_one_line(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mpiprof", "view", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 2 and done.stdout == ""
    assert "no mpiprof trace in it" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.heavy
def test_large_heads_and_bodies_end_the_connection(served: Any) -> None:
    port = int(served.base.rsplit(":", 1)[1])
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 17) + b"\r\n\r\n"
    assert b" 431 " in raw(port, head) or b" 400 " in raw(port, head)
    body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    assert b" 413 " in raw(port, body)
    assert b" 403 " in raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_a_port_in_use_is_reported_on_one_line(served: Any, tmp_path: Path) -> None:
    port = served.base.rsplit(":", 1)[1]
    words = [sys.executable, "-m", "mpiprof", "view", str(plain(tmp_path / "t", 2)), "--port", port]
    done = subprocess.run(words, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 1
    assert done.stderr.startswith(f"mpiprof: cannot listen on 127.0.0.1 port {port}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("options", "printed"),
    [(["--port", "70000"], "0 to 65535"), (["--source", "/nowhere"], "no such folder")],
)
def test_wrong_use_is_reported_on_one_line(
    options: list[str], printed: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "mpiprof", "view", str(plain(tmp_path / "t", 2)), *options]
    done = subprocess.run(words, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 2 and printed in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.heavy
def test_without_dash_view_names_the_packages_to_install(tmp_path: Path) -> None:
    (tmp_path / "dash").mkdir()
    (tmp_path / "dash" / "__init__.py").write_text("raise ModuleNotFoundError(name='dash')")
    words = [sys.executable, "-m", "mpiprof", "view", str(plain(tmp_path / "t", 2))]
    environment = clean_environment({"PYTHONPATH": str(tmp_path)})
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert done.stderr == f"mpiprof: view needs dash: {install_command('dashboard')}\n"
