"""Answer clients of OpenAI's interface over HTTP, many at a time; with a page to talk."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.errors import InvalidArgumentError, PackageMissingError
from zyx_llm.program.options import add_model, model_of
from zyx_llm.serving import BatchEngine

if TYPE_CHECKING:
    import argparse

    from zyx_llm.language_model import LanguageModel

#: Where the token is looked for that clients have to show.
TOKEN_VARIABLE: Final = "ZYX_LLM_TOKEN"  # its name
#: Seconds that answers may still take when the server is stopped.
_GRACE_S: Final = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="where it listens; others need a token (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=8080, help="0 is any that is free (default: %(default)s)")
    parser.add_argument("--token", help=f"what clients have to show as their key; {TOKEN_VARIABLE} if left out")
    parser.add_argument("--name", help="what clients call the model; the name of the file if left out")
    parser.add_argument(
        "--rows", type=int, default=8, help="answers that are written side by side (default: %(default)s)"
    )
    parser.add_argument("--queue", type=int, default=256, help="requests that may wait (default: %(default)s)")
    parser.add_argument(
        "--warm", action="store_true", help="compile all that greedy answers need before it listens, for minutes"
    )


def run(chosen: argparse.Namespace) -> int:
    """Run the command."""
    try:
        import uvicorn

        from zyx_llm.serving.http import app_of
    except ModuleNotFoundError as error:
        raise PackageMissingError(f"{error}; pip install 'zyx-llm[serve]' brings what serving needs") from error
    token = chosen.token or os.environ.get(TOKEN_VARIABLE) or None
    if not is_loopback(chosen.host) and token is None:
        raise InvalidArgumentError(
            f"others can reach {chosen.host}: give a token that clients have to show, by --token or {TOKEN_VARIABLE}, "
            "or listen on 127.0.0.1"
        )
    listening = _listening(chosen.host, chosen.port)  # before the model is loaded: this may fail
    with listening:
        model = model_of(chosen)
        engine = _engine_of(model, chosen)
        try:
            name = chosen.name or Path(chosen.file).stem
            host, port = listening.getsockname()[:2]
            shown = in_address(host)
            # Those who show a token may come by any name. Without one, other names are pages' that were led here.
            hosts = {"127.0.0.1", "localhost", "[::1]", shown, in_address(chosen.host)} if token is None else None
            app = app_of(model, engine, name, token=token, hosts=hosts)
            print(f"{name} at http://{shown}:{port}/ (clients: http://{shown}:{port}/v1); Ctrl-C stops it", flush=True)
            config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_GRACE_S, lifespan="off")
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            engine.close()
    return 0


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_address(host: str) -> str:
    """Return a host as addresses of the web have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not 0 <= port < 1 << 16:
        raise InvalidArgumentError(f"--port {port} is none; there are 1 to 65535, and 0 for any that is free")
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidArgumentError(f"{host}, port {port}: {error}; choose others by --host and --port") from error


def _engine_of(model: LanguageModel, chosen: argparse.Namespace) -> BatchEngine:
    ends = model.tokenizer.special.ends
    engine = BatchEngine(model.network, ends, rows=chosen.rows, waiting=chosen.queue, dtype=model.cache_dtype)
    if chosen.warm:
        print("compiling ...", file=sys.stderr, flush=True)
        engine.steps.warm()
    return engine
