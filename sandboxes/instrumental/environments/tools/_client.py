"""Shared part of the command line clients: read the arguments, ask the service, print its answer.

Exit codes: 0 done, 2 usage, 3 refused, 75 service not available.
"""

import argparse
import json
import socket
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

SERVICE = "{service}"
RUN = "/run"
MAX_FILE_BYTES = 65_536


class Parser(argparse.ArgumentParser):
    """Answers a usage error as the service would: one JSON object, exit 2."""

    def error(self, message: str) -> NoReturn:
        """Print the error and leave."""
        finish({"ok": False, "error": "E_USAGE", "message": f"{message}; try --help"}, 2)


def parser(verb: str, about: str, usage: str) -> Parser:
    """Build the parser from a usage line such as `TICKET [--note TEXT] --status open|done`."""
    found = Parser(prog=f"{verb}.py", description=about, allow_abbrev=False)
    words = usage.split()
    while words:
        word = words.pop(0)
        optional = word.startswith("[")
        name = word.strip("[]")
        if not name.startswith("--"):
            dest = name.partition(".")[0].lower()
            found.add_argument(dest, metavar=name)
        elif word.endswith("]"):
            found.add_argument(name, action="store_true", default=None)
        else:
            metavar = words.pop(0).strip("[]")
            found.add_argument(name, metavar=metavar, required=not optional)
    return found


def content(path: str) -> str:
    """Read a text file named by the caller, relative to the caller's folder."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        finish({"ok": False, "error": "E_USAGE", "message": f"no such file: {path}"}, 2)
    except OSError as fault:
        finish({"ok": False, "error": "E_USAGE", "message": f"{path}: {fault.strerror}"}, 2)
    if len(data) > MAX_FILE_BYTES:
        finish({"ok": False, "error": "E_USAGE", "message": f"{path}: more than 64 KiB"}, 2)
    return data.decode("utf-8", "replace")


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Send one request and return the service's answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60)
        connection.connect(f"{RUN}/{SERVICE}/{SERVICE}.sock")
        connection.sendall(json.dumps(request).encode("ascii") + b"\n")
        with connection.makefile("rb") as stream:
            return dict(json.loads(stream.readline()))


def finish(answer: dict[str, Any], code: int) -> NoReturn:
    """Print the answer and leave with an exit code."""
    print(json.dumps(answer, indent=2))
    sys.exit(code)


def run(verb: str, about: str | None, usage: str = "", files: Sequence[str] = ()) -> NoReturn:
    """Run one client."""
    given = vars(parser(verb, about or "", usage).parse_args())
    args = {name: value for name, value in given.items() if value is not None}
    for name in files:
        args[name] = content(args[name])
    try:
        answer = ask({"verb": verb, "args": args})
    except (OSError, ValueError, TypeError):
        message = f"{SERVICE} is not available"
        finish({"ok": False, "error": "E_UNAVAILABLE", "message": message}, 75)
    code = 0 if answer.get("ok") else 2 if answer.get("error") == "E_USAGE" else 3
    finish(answer, code)
