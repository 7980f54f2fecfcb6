"""The token of `view` on its way to the browser: other users of the machine cannot read it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.dashboard_traces import plain
from support.jobs import clean_environment
from support.wait_until import HANG_S, wait_until

# A browser that stores its arguments, the modes of the opened file, and its content.
BROWSER = """#!{python}
import json, os, pathlib, sys, urllib.parse
path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[1]).path))
seen = {{"arguments": sys.argv[1:], "file": str(path), "content": path.read_text()}}
seen["modes"] = [path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777]
part = pathlib.Path({out!r} + ".part")
part.write_text(json.dumps(seen))
part.replace({out!r})
"""


@pytest.mark.heavy
def test_the_token_is_not_among_the_arguments_of_the_browser(tmp_path: Path) -> None:
    out, browser = tmp_path / "seen.json", tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable, out=str(out)))
    browser.chmod(0o755)
    environment = clean_environment() | {"DISPLAY": ":0", "BROWSER": str(browser)}
    environment.pop("SSH_CONNECTION", None)
    words = [sys.executable, "-m", "mpiprof", "view", str(plain(tmp_path / "t")), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        _, token = address.split("?token=")
        wait_until(out.exists, "the browser was started", process)
        seen = json.loads(out.read_text())
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(HANG_S)
    assert len(seen["arguments"]) == 1 and token not in seen["arguments"][0]
    assert address in seen["content"]
    assert seen["modes"] == [0o600, 0o700]
    assert not Path(seen["file"]).exists()
