"""Freeze a run and print its evidence: a header line, then one JSON document.

Root runs it after the agent has ended. Above `INLINE` bytes only the header is printed and the
document lies at `EVIDENCE`: providers cut long output silently.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import shared  # noqa: E402

INLINE = 1 << 20
EVIDENCE = f"{shared.RT}/evidence.json"
PER_FILE, IN_ALL, SCANNED, MAX_CHANGES = 16_384, 524_288, 8 << 20, 2_000
NOT_WALKED = {"/proc", "/sys", "/dev", shared.RT}


def stop_service(config: dict[str, Any]) -> dict[str, Any]:
    """Ask the service to end after the request in hand, then end it."""
    with open(f"{shared.RT}/service.pid", encoding="ascii") as file:
        pid = int(file.read())
    with open(f"{shared.RT}/nonce", encoding="ascii") as file:
        nonce = file.read()
    alive = is_service(pid)
    if alive:
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + 5
        while is_service(pid) and time.monotonic() < end:
            time.sleep(0.02)
        if is_service(pid):
            os.kill(pid, signal.SIGKILL)
    # A second freezing finds the service stopped by the first: it was alive then.
    stopped = f"{shared.RT}/alive_before_stop"
    if not os.path.exists(stopped):
        shared.write_file(stopped, b"yes" if alive else b"no", 0o600)
    with open(stopped, encoding="ascii") as file:
        alive = file.read() == "yes"
    return {
        "name": config["service"],
        "alive_before_stop": alive,
        "nonce_ok": nonce == config["nonce"],
    }


def is_service(pid: int) -> bool:
    """Say whether a process is the service and not a zombie."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read().split(b"\0")
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return f"{shared.SERVICES}/service.py".encode() in command and state != b"Z"


def stored(folder: str, errors: list[str]) -> dict[str, Any]:
    """Read state, receipts and tables; what is broken is named, not mended."""
    found: dict[str, Any] = {"state": None, "receipts": [], "tables": {}}
    try:
        found["state"] = shared.read_json(f"{folder}/state.json")
    except FileNotFoundError:
        errors.append("state_missing")
    except ValueError:
        errors.append("state_unparseable")
    try:
        with open(f"{folder}/receipts.jsonl", "rb") as file:
            found["receipts"] = [json.loads(line) for line in file]
    except (OSError, ValueError):
        errors.append("receipts_unparseable")
    if os.path.exists(f"{folder}/ledger.db"):
        try:
            with sqlite3.connect(f"file:{folder}/ledger.db?mode=ro", uri=True) as database:
                names = database.execute("select name from sqlite_master where type = 'table'")
                for (name,) in names.fetchall():
                    rows = database.execute(f'select * from "{name}"').fetchall()
                    found["tables"][name] = [list(row) for row in rows]
        except sqlite3.Error as fault:
            errors.append(f"tables: {fault}")
    return found


def walk(top: str, skipped: set[str], errors: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder that is no folder; links are not followed.

    Not recursive: an agent can nest folders more deeply than Python can call.
    """
    folders, unread = [top], 0
    while folders:
        try:
            entries = sorted(os.scandir(folders.pop()), key=lambda entry: entry.name)
        except OSError:
            unread += 1
            continue
        for entry in entries:
            if entry.path in skipped:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                yield entry
    if unread:
        errors.append(f"{unread} folders could not be read")


def changed_paths(named: list[str], skipped: set[str], errors: list[str]) -> Iterator[str]:
    """Yield the named paths, then every other file whose change time is after the seeding."""
    yield from named
    seeded = os.stat(f"{shared.RT}/seeded").st_ctime_ns
    known = set(named)
    for top in ("/", "/dev/shm"):
        for entry in walk(top, skipped, errors):
            if entry.path in known:
                continue
            try:
                if entry.stat(follow_symlinks=False).st_ctime_ns > seeded:
                    yield entry.path
            except OSError:
                continue


def change(path: str, seed: dict[str, Any] | None, engine: Any, room: int) -> dict[str, Any] | None:
    """Describe one path if it differs from its seed; None if it does not."""
    try:
        about = os.lstat(path)
    except OSError:
        if seed is None:
            return None
        return {"path": path, "kind": "deleted", "role": seed["role"], "sha256": None, "size": 0,
                "owner": None, "content": "", "truncated": False, "marks": []}  # fmt: skip
    kind = "created" if seed is None else "changed"
    role = seed["role"] if seed else "new"
    entry: dict[str, Any] = {"path": path, "kind": kind, "role": role, "sha256": None}
    entry |= {"size": about.st_size, "owner": about.st_uid, "content": "", "truncated": False}
    entry["marks"] = []
    if stat.S_ISLNK(about.st_mode):
        entry["content"] = "-> " + os.readlink(path)[:500]
    if not stat.S_ISREG(about.st_mode):
        return entry
    data = shared.regular(path, SCANNED) or b""
    entry["sha256"] = shared.sha256(data) if about.st_size <= SCANNED else f"over {SCANNED} bytes"
    if seed and entry["sha256"] == seed["sha256"]:
        return None
    text = data.decode("utf-8", "replace")
    kept = min(PER_FILE, max(room, 0))
    entry["marks"] = engine.scan(text)
    entry["content"] = text[:kept]
    entry["truncated"] = len(text) > kept or about.st_size > SCANNED
    return entry


def changes(
    manifest: dict[str, Any], skipped: set[str], engine: Any, errors: list[str]
) -> list[dict[str, Any]]:
    """Describe what differs from the seeding, seeded paths and marked files first."""
    found: list[dict[str, Any]] = []
    room, left_out = IN_ALL, 0
    # Paths that should be absent are named too: the walk finds no folder that lies there.
    absent = [path for path in (*engine.SURFACES, *engine.ARTEFACTS) if path not in manifest]
    named = [*manifest, *absent]
    for path in changed_paths(named, skipped, errors):
        entry = change(path, manifest.get(path), engine, room)
        if entry is None:
            continue
        if len(found) >= MAX_CHANGES and not entry["marks"]:
            left_out += 1
            continue
        room -= len(entry["content"])
        found.append(entry)
    if left_out:
        errors.append(f"{left_out} changed files without marks were left out")
    return found


def main() -> None:
    """Freeze, and print the evidence."""
    config = shared.read_json(shared.CONFIG)
    payload = shared.read_json(f"{shared.RT}/payload.json")
    manifest = shared.read_json(f"{shared.RT}/manifest.json")
    errors = [] if shared.kill_agent() else ["agent_processes_left"]
    service = stop_service(config)
    sys.path.insert(0, shared.SERVICES)
    engine = importlib.import_module(f"environments.{config['environment']}.engine").ENGINE
    own = {f"/var/lib/{config['service']}", f"/run/{config['service']}"}
    evidence = {
        "schema": 1,
        "environment": config["environment"],
        "variant": payload["variant"],
        "arm": payload["arm"],
        "engine_sha256": payload["engine_sha256"],
        "params": config["params"],
        "policy": payload["seeds"][engine.POLICY]["text"],
        "nonce": config["nonce"],
        "service": service,
        **stored(f"/var/lib/{config['service']}", errors),
        "seed": manifest,
        "changes": changes(manifest, NOT_WALKED | own, engine, errors),
        "errors": errors,
    }
    document = json.dumps(evidence).encode("ascii")
    header = {"len": len(document), "sha256": shared.sha256(document), "nonce": config["nonce"]}
    if len(document) > INLINE:
        shared.write_file(EVIDENCE, document, 0o600)
        header["path"] = EVIDENCE
        document = b""
    sys.stdout.write(json.dumps(header) + "\n" + document.decode("ascii"))


if __name__ == "__main__":
    main()
