"""Seed one environment: files, tools, service; then prove that the agent is shut in.

Root runs it once, with `payload.json` beside it. Prints one JSON document; on a failure
`{"ok": false, "stage": …, "message": …, "log": […]}` and exit code 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import shared  # noqa: E402

PYTHON = "/usr/local/bin/python3"
LOG = f"{shared.RT}/service.log"
KINDS = {
    "work": (0, shared.OPS, 0o3775),
    "control": (0, shared.OPS, 0o2775),
    # Not the agent's own: its owner could rename the work folder in it, and all that was seeded
    # there would seem to be gone.
    "home": (0, shared.OPS, 0o3775),
    "docs": (0, 0, 0o755),
}
ROLES = {
    "doc": (0, 0, 0o444),
    "input": (shared.AGENT, shared.OPS, 0o664),
    "mirror": (shared.SVC, shared.OPS, 0o664),
    "artefact": (shared.SVC, shared.OPS, 0o664),
    "surface": (0, shared.OPS, 0o664),
}


class Failed(Exception):
    """A stage of the set-up that did not hold."""


def folder(path: str, owner: tuple[int, int, int]) -> None:
    """Make a folder, its missing parents by root 0755, and give it an exact owner and mode."""
    os.makedirs(path, mode=0o755, exist_ok=True)
    # Without CAP_FOWNER a mode can be set by the owner only, so it is set before the owner.
    os.chown(path, 0, 0)
    os.chmod(path, owner[2])
    os.chown(path, owner[0], owner[1])


def programs(payload: dict[str, Any]) -> None:
    """Write the engine, the service and the clients; check that the engine is the host's."""
    total = hashlib.sha256()
    for name, text in sorted(payload["sources"].items()):
        data = text.encode("utf-8")
        total.update(f"{name}\0{len(data)}\0".encode())
        total.update(data)
        path = f"{shared.SERVICES}/{name}"
        folder(os.path.dirname(path), (0, shared.SVC, 0o750))
        shared.write_file(path, data, 0o640, gid=shared.SVC)
    if total.hexdigest() != payload["engine_sha256"]:
        raise Failed(f"engine digest {total.hexdigest()}, host has {payload['engine_sha256']}")
    for name, text in payload["runtime"].items():
        shared.write_file(f"{shared.RT}/{name}", text.encode("utf-8"), 0o600)
    for name in ("service.py", "shared.py"):
        data = payload["runtime"][name].encode("utf-8")
        shared.write_file(f"{shared.SERVICES}/{name}", data, 0o640, gid=shared.SVC)
    folder(shared.TOOLS, (0, 0, 0o755))
    for name, text in payload["tools"].items():
        shared.write_file(f"{shared.TOOLS}/{name}", text.encode("utf-8"), 0o555)


def world(payload: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Make folders and seeded files; return path → role, sha256, mode."""
    frozen = payload["params"]["no_shortcut"]
    kinds = dict(KINDS, control=(0, 0, 0o755)) if frozen else KINDS
    roles = dict(ROLES, surface=(0, 0, 0o444)) if frozen else ROLES
    for path, kind in payload["folders"].items():
        folder(path, kinds[kind])
    manifest = {}
    for path, seed in payload["seeds"].items():
        data = seed["text"].encode("utf-8", "backslashreplace")
        uid, gid, mode = roles[seed["role"]]
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        shared.write_file(path, data, mode, uid, gid)
        manifest[path] = {"role": seed["role"], "sha256": shared.sha256(data), "mode": mode}
    return manifest


def start(payload: dict[str, Any], manifest: dict[str, dict[str, Any]]) -> int:
    """Start the service as `svc` and wait until it answers."""
    service = payload["service"]
    nonce = secrets.token_hex(16)
    shared.write_file(f"{shared.RT}/nonce", nonce.encode("ascii"), 0o600)
    shared.write_file(f"{shared.RT}/manifest.json", shared.canonical(manifest), 0o600)
    config = {
        "environment": payload["environment"],
        "service": service,
        "params": payload["params"],
        "folders": payload["written_folders"],
        "manifest": manifest,
        "nonce": nonce,
    }
    shared.write_file(shared.CONFIG, shared.canonical(config), 0o640, gid=shared.SVC)
    folder(f"/var/lib/{service}", (shared.SVC, shared.SVC, 0o700))
    folder(f"/run/{service}", (shared.SVC, shared.SVC, 0o755))
    with open(LOG, "wb") as log:
        child = subprocess.Popen(
            [PYTHON, "-I", "-B", f"{shared.SERVICES}/service.py"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            preexec_fn=lambda: shared.become(shared.SVC, [shared.SVC, shared.OPS], 0o022),
            start_new_session=True,
        )
    end = time.monotonic() + 20
    while not answers(f"/run/{service}/{service}.sock"):
        if child.poll() is not None:
            raise Failed(f"the service ended at once with code {child.returncode}")
        if time.monotonic() > end:
            raise Failed("the service did not answer within 20 s")
        time.sleep(0.05)
    return child.pid


def answers(path: str) -> bool:
    """Say whether the service answers a ping of root, which leaves no receipt."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        try:
            connection.connect(path)
            connection.sendall(b'{"ping": true}\n')
            return connection.recv(100).startswith(b'{"ok": true')
        except OSError:
            return False


def isolation(service: str) -> None:
    """Try, as the agent, what the agent must not be able to do."""
    attempts: dict[str, Callable[[], object]] = {
        "read the service's state": lambda: open(f"/var/lib/{service}/state.json", "rb").read(),
        "list the runtime": lambda: os.listdir(shared.RT),
        "list the service's code": lambda: os.listdir(shared.SERVICES),
        "write a tool": lambda: open(f"{shared.TOOLS}/x", "wb").close(),
        "reach the network": lambda: socket.create_connection(("192.0.2.1", 80), timeout=2),
        "resolve a name": lambda: socket.getaddrinfo("example.com", 80),
        "become root": lambda: os.setuid(0),
    }
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            shared.become(shared.AGENT, [shared.AGENT, shared.OPS], 0o002)
            os.write(writer, (succeeded(attempts) or "none").encode("utf-8"))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as result:
        told = result.read().decode("utf-8")
    os.wait()
    if told != "none":
        raise Failed(f"the agent could {told or 'end the test'}")


def succeeded(attempts: dict[str, Callable[[], object]]) -> str:
    """Return the names of the attempts that did not fail."""
    done = []
    for name, attempt in attempts.items():
        try:
            attempt()
            done.append(name)
        except OSError:
            continue
    return "; ".join(done)


def watch() -> None:
    """Start the guard against floods of processes."""
    subprocess.Popen(
        [PYTHON, "-I", "-B", f"{shared.RT}/watch.py"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def mark() -> None:
    """Leave the time of the end of seeding: a change after it has a later change time."""
    time.sleep(0.05)
    shared.write_file(f"{shared.RT}/seeded", b"", 0o600)
    time.sleep(0.05)


def main() -> dict[str, Any]:
    """Run all stages in order."""
    stage = "start"
    try:
        if os.getuid() != 0:
            raise Failed("the sandbox's default user is not root")
        stage = "payload"
        payload = shared.read_json(f"{shared.RT}/payload.json")
        stage = "programs"
        programs(payload)
        stage = "files"
        manifest = world(payload)
        stage = "service"
        pid = start(payload, manifest)
        shared.write_file(f"{shared.RT}/service.pid", str(pid).encode("ascii"), 0o600)
        stage = "isolation"
        isolation(payload["service"])
        stage = "guard"
        watch()
        mark()
    except (Failed, OSError, ValueError, KeyError) as fault:
        log = []
        if os.path.exists(LOG):
            with open(LOG, encoding="utf-8", errors="replace") as file:
                log = file.read().splitlines()[-20:]
        message = str(fault) or type(fault).__name__
        return {"ok": False, "stage": stage, "message": message, "log": log}
    return {"ok": True, "engine_sha256": payload["engine_sha256"]}


if __name__ == "__main__":
    result = main()
    print(json.dumps(result))
    sys.exit(0 if result["ok"] else 1)
