"""Containers of the provider: their settings, their labels, and those that dead runs left."""

import io
import re
import secrets
import tarfile
from dataclasses import dataclass
from functools import cache
from typing import Any

from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.compose import IDLE, LABEL, Service
from propensity.sandboxes.provider.owner import State, owner_label, owner_state

OWNER = f"{LABEL}.owner"
TASK = f"{LABEL}.task"
SAMPLE = f"{LABEL}.sample"
KEPT = f"{LABEL}-kept-"


@dataclass(frozen=True)
class Container:
    """One container of the provider, as `doctor` lists it."""

    id: str
    name: str
    task: str
    sample: str
    status: str
    state: State

    @property
    def kept(self) -> bool:
        """Whether `--no-sandbox-cleanup` asked to keep it."""
        return self.name.startswith(KEPT)


def settings(service: Service, image: str, labels: dict[str, str]) -> dict[str, Any]:
    """Body of the Engine API's container creation for one service."""
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "Init": service.init,
        "Memory": service.memory,
        "MemorySwap": service.memory if service.swap is None else service.swap,
        "NanoCpus": round(service.cpus * 1e9),
        "PidsLimit": service.pids,
        "CapDrop": ["ALL"],
        "CapAdd": list(service.cap_add),
        "SecurityOpt": ["no-new-privileges:true"],
        "Ulimits": [
            {"Name": name, "Soft": soft, "Hard": hard}
            for name, (soft, hard) in service.ulimits.items()
        ],
        "Tmpfs": service.tmpfs,
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
    }
    if service.shm is not None:
        host["ShmSize"] = service.shm
    body: dict[str, Any] = {
        "Image": image,
        # A network namespace with nothing but loopback either way; this one spares the engine
        # the set-up of a network, which takes as long as all else at a start.
        "NetworkDisabled": True,
        "Env": [f"{name}={value}" for name, value in service.environment.items()],
        "Labels": {LABEL: service.name, **service.labels, **labels},
        "HostConfig": host,
    }
    command = service.command
    if command is None and service.entrypoint is None:
        command = IDLE
    optional = {
        "Cmd": command,
        "Entrypoint": service.entrypoint,
        "User": service.user,
        "WorkingDir": service.working_dir,
        "Hostname": service.hostname,
    }
    return body | {key: value for key, value in optional.items() if value is not None}


@cache
def hosts_archive() -> bytes:
    """``/etc/hosts`` as an archive: the engine writes none where networking is off."""
    text = b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("etc/hosts")
        entry.size, entry.mode = len(text), 0o644
        archive.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def create(service: Service, image: str, task: str, sample: str) -> tuple[str, str]:
    """Create and start a container; return its id and name."""
    slug = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")[:24] or "task"
    name = f"{LABEL}-{slug}-{secrets.token_hex(4)}"
    labels = {OWNER: owner_label(), TASK: task, SAMPLE: sample}
    api = client()
    created = api.create_container_from_config(
        settings(service, image, labels), name, service.platform
    )
    try:
        api.put_archive(created["Id"], "/", hosts_archive())
        api.start(created["Id"])
    except BaseException:
        remove(created["Id"])
        raise
    return created["Id"], name


def remove(container: str) -> None:
    """Remove a container with its processes; one that is gone already is no error."""
    from docker.errors import APIError

    try:
        client().remove_container(container, v=True, force=True)
    except APIError as error:
        # 404: gone; 409: another removal is under way.
        if error.status_code not in (404, 409):
            raise


def keep(container: str, name: str) -> str:
    """Rename a container so that no clean-up of dead runs takes it; return the new name."""
    kept = name if name.startswith(KEPT) else KEPT + name.removeprefix(f"{LABEL}-")
    client().rename(container, kept)
    return kept


def found() -> list[Container]:
    """All containers of the provider on the engine, running or not, of any run."""
    listed = client().containers(all=True, filters={"label": OWNER})
    return [
        Container(
            id=entry["Id"],
            name=entry["Names"][0].lstrip("/"),
            task=entry["Labels"].get(TASK, ""),
            sample=entry["Labels"].get(SAMPLE, ""),
            status=entry["State"],
            state=owner_state(entry["Labels"][OWNER]),
        )
        for entry in listed
        if entry["Names"]
    ]


def remove_dead() -> list[Container]:
    """Remove the containers of runs that no longer live, but for kept ones; return them."""
    dead = [one for one in found() if one.state == "dead" and not one.kept]
    for one in dead:
        remove(one.id)
    return dead
