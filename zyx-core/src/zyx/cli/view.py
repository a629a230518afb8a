"""``zyx view SCRIPT``: run a program as ``zyx profile`` does, and show all of it on a page for a browser.

zyx view train.py --epochs 1            serves the page at an address of this machine, until Ctrl-C
zyx view --html page.html train.py      writes it to a file instead: one file, which needs no network

The page has the kernels with what was measured beside what was expected, their source, and the moves of their
schedules; plans as graphs of kernels and buffers; a timeline; and what memory held, with its peak. Kernels have the
lines of the program that they compute (``ZYX_DEBUG=lines``), so that operations take longer than otherwise.
"""

from __future__ import annotations

import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx.cli.output import write_file
from zyx.cli.script import declare_script, profiled_script
from zyx.errors import ArgumentError
from zyx.modes import set_shown
from zyx.runtime.lines import follow_lines
from zyx.runtime.runtime import current
from zyx.runtime.trace import LINES
from zyx.runtime.view import view_of

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

_PAGE: Final = Path(__file__).parent / "view_page.html"
_ADDRESS: Final = "127.0.0.1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--html", metavar="FILE", help="write the page to a file instead of serving it")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="where to serve it; any that is free if not given"
    )
    declare_script(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run the program, and write or serve the page; return the program's exit status, 1 if it raised something."""
    runtime = current()
    with set_shown(runtime.trace.bits | LINES, follow_lines(runtime)):
        profile, status = profiled_script(arguments, arguments.html)
    page = page_of(view_of(profile, Path(arguments.script).name))
    if arguments.html is not None:
        write_file(arguments.html, page)
        console.print(f"written to {arguments.html}")
        return status
    try:
        server = server_of(page, arguments.port)
    except (OSError, OverflowError) as error:
        raise ArgumentError(f"--port {arguments.port}: {error}; any that is free is taken if none is given") from error
    with server:
        console.print(f"http://{_ADDRESS}:{server.server_port}/ has the page; Ctrl-C ends this")
        console.file.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
    return status


def page_of(data: dict[str, Any]) -> str:
    """Return the page of such data, of `zyx.runtime.view.view_of`."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing in it ends the script
    before, after = _PAGE.read_text(encoding="utf-8").split("DATA</script>")
    return f"{before}{text}</script>{after}"


def server_of(page: str, port: int) -> ThreadingHTTPServer:
    """Return a server of one page for this machine alone, also where a name of another one leads here."""
    body = page.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            if host not in (_ADDRESS, "localhost"):
                self.send_error(HTTPStatus.FORBIDDEN)
                return
            if self.path != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # as the class has it
            """Print nothing."""

    return ThreadingHTTPServer((_ADDRESS, port), Handler)
