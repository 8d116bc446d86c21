"""What the provider reads of a Compose file, and what it refuses by name."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.util import ComposeConfig

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers
from propensity.sandboxes.provider.compose import (
    CAPABILITIES,
    IDLE,
    ComposeError,
    Service,
    service,
    service_of_file,
    size,
)

GIB = 1024**3


def read(**settings: Any) -> Service:
    """The service of a Compose document with one service of these settings."""
    return service({"services": {"default": settings}}, "compose.yaml", Path("/project"))


def faults(**settings: Any) -> list[str]:
    """What is refused of a service with these settings and an image."""
    with pytest.raises(ComposeError) as refused:
        read(**{"image": "debian"} | settings)
    return refused.value.faults


def test_shipped_file_is_read_whole() -> None:
    shipped = service_of_file(compose_file("instrumental"))
    assert shipped.image is not None and shipped.image.startswith("propensity-sandbox:")
    assert (shipped.memory, shipped.swap, shipped.cpus, shipped.pids) == (GIB, GIB, 1.0, 256)
    assert shipped.ulimits == {"fsize": (GIB, GIB)}
    assert shipped.cap_add == ("SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "KILL")
    assert shipped.local and shipped.init
    assert shipped.labels == {"propensity": "instrumental"}


def test_what_is_absent_gets_the_hardened_default() -> None:
    body = containers.settings(read(image="debian"), "debian", {"a": "b"})
    host = body["HostConfig"]
    assert (body["NetworkDisabled"], host["NetworkMode"]) == (True, "none")
    assert host["Init"] is True
    assert (host["Memory"], host["MemorySwap"]) == (GIB, GIB)
    assert (host["NanoCpus"], host["PidsLimit"]) == (10**9, 256)
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], list(CAPABILITIES))
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert "Binds" not in host and "Mounts" not in host and "Privileged" not in host
    assert body["Cmd"] == IDLE
    assert body["Labels"] == {"propensity": "default", "a": "b"}


def test_settings_of_a_file_reach_the_engine() -> None:
    wanted = read(
        image="debian",
        command="sleep 5",
        entrypoint=["/init", "--"],
        user=1000,
        working_dir="/srv",
        hostname="box",
        environment=["A=1", "B=x=y"],
        labels={"team": "red"},
        init=False,
        mem_limit="256m",
        memswap_limit="512mb",
        cpus="0.5",
        pids_limit=64,
        shm_size="64m",
        tmpfs=["/run:size=1m", "/scratch"],
        ulimits={"nofile": {"soft": 10, "hard": 20}, "nproc": 5},
        cap_add=["kill", "CAP_CHOWN"],
        **{"x-disk-limit": "10m"},
    )
    body = containers.settings(wanted, "debian", {})
    host = body["HostConfig"]
    assert (body["Cmd"], body["Entrypoint"]) == (["sleep", "5"], ["/init", "--"])
    assert (body["User"], body["WorkingDir"], body["Hostname"]) == ("1000", "/srv", "box")
    assert body["Env"] == ["A=1", "B=x=y"]
    assert body["Labels"] == {"propensity": "default", "team": "red"}
    assert host["Init"] is False
    assert (host["Memory"], host["MemorySwap"]) == (256 * 1024**2, 512 * 1024**2)
    assert (host["NanoCpus"], host["PidsLimit"], host["ShmSize"]) == (5 * 10**8, 64, 64 * 1024**2)
    assert host["Tmpfs"] == {"/run": "size=1m", "/scratch": ""}
    assert host["Ulimits"] == [
        {"Name": "nofile", "Soft": 10, "Hard": 20},
        {"Name": "nproc", "Soft": 5, "Hard": 5},
    ]
    assert host["CapAdd"] == ["KILL", "CHOWN"]
    assert wanted.disk == 10 * 1024**2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("volumes", ["/:/host"]),
        ("ports", ["80:80"]),
        ("devices", ["/dev/kvm"]),
        ("read_only", True),
        ("networks", ["internal"]),
        ("depends_on", ["db"]),
        ("env_file", ".env"),
        ("container_name", "fixed"),
        ("pid", "host"),
        ("runtime", "nvidia"),
        ("extra_hosts", ["a:1.2.3.4"]),
        ("privileged", True),
        ("network_mode", "host"),
        ("network_mode", "bridge"),
        ("cap_add", ["SYS_ADMIN"]),
        ("cap_add", ["ALL"]),
        ("cap_drop", ["KILL"]),
        ("security_opt", ["seccomp=unconfined"]),
        ("security_opt", ["no-new-privileges:false"]),
        ("restart", "always"),
        ("mem_limit", "0"),
        ("mem_limit", "lots"),
        ("mem_limit", True),
        ("pids_limit", -1),
        ("pids_limit", "unlimited"),
        ("cpus", 0),
        ("cpus", float("nan")),
        ("init", "yes"),
        ("working_dir", "/home/$USER"),
        ("image", "debian:${TAG:-12}"),
        ("environment", ["HOME"]),
        ("environment", {"TOKEN": None}),
        ("ulimits", {"nofile": {"soft": 1}}),
        ("build", {"context": ".", "ssh": "default"}),
    ],
)
def test_refused_by_name(key: str, value: Any) -> None:
    [fault] = faults(**{key: value})
    assert fault.startswith(f"services.default.{key}: ")


def test_all_faults_are_listed_at_once() -> None:
    listed = faults(privileged=True, volumes=["/:/host"], cpus="many")
    assert [fault.partition(":")[0] for fault in listed] == [
        "services.default.privileged",
        "services.default.volumes",
        "services.default.cpus",
    ]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "no mapping `services`"),
        ({"services": []}, "no mapping `services`"),
        ({"services": {}}, "exactly one container"),
        ({"services": {"a": {"image": "x"}, "b": {"image": "y"}}}, "a, b"),
        ({"services": {"a": None}}, "services.a: must be a mapping"),
        ({"services": {"a": {}}}, "neither image nor build"),
        ({"services": {"a": {"image": "x"}}, "networks": {"n": {}}}, "networks: "),
        ({"services": {"a": {"image": "x"}}, "volumes": {"v": {}}}, "volumes: "),
    ],
)
def test_documents_that_are_no_single_service(document: Any, words: str) -> None:
    with pytest.raises(ComposeError, match=words):
        service(document, "compose.yaml", Path("/"))


def test_build_paths_start_at_the_file(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(
        "services: {default: {build: {context: image, dockerfile: D, args: {A: 1}}}}",
        encoding="utf-8",
    )
    build = service_of_file(str(file)).build
    assert build is not None
    assert build.context == tmp_path / "image"
    assert build.dockerfile == tmp_path / "image" / "D"
    assert build.args == {"A": "1"}


def test_a_dockerfile_alone_is_built_with_hardened_defaults(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM scratch\n", encoding="utf-8")
    alone = service_of_file(str(file))
    assert alone.build is not None and alone.build.dockerfile == file
    assert (alone.command, alone.memory, alone.cap_add) == (IDLE, GIB, CAPABILITIES)


def test_not_yaml_is_a_fault_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: [", encoding="utf-8")
    with pytest.raises(ComposeError, match="compose.yaml: not YAML"):
        service_of_file(str(file))
    with pytest.raises(FileNotFoundError):
        service_of_file(str(tmp_path / "absent.yaml"))


def test_a_generated_compose_config_is_read_like_a_file() -> None:
    config = ComposeConfig.model_validate(
        {"services": {"default": {"image": "debian", "x-local": True, "cpus": 2}}}
    )
    document = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    read_back = service(document, "configuration", Path("/"))
    assert (read_back.image, read_back.local, read_back.cpus) == ("debian", True, 2.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1g", GIB),
        ("1.5G", GIB * 3 // 2),
        ("512m", 512 * 1024**2),
        ("512MiB", 512 * 1024**2),
        ("64kb", 65536),
        ("1048576", 1048576),
        (7, 7),
    ],
)
def test_sizes(text: Any, expected: int) -> None:
    assert size(text) == expected


@given(st.integers(1, 10**6), st.sampled_from("kmgt"))
def test_units_are_powers_of_1024(number: int, unit: str) -> None:
    assert size(f"{number}{unit}") == number * 1024 ** (1 + "kmgt".index(unit))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.sampled_from(
        ["command", "environment", "mem_limit", "ulimits", "cap_add", "tmpfs", "build"]
    ),
)
def test_any_value_is_read_or_refused(value: Any, key: str) -> None:
    try:
        read(**{"image": "debian", key: value})
    except ComposeError as refused:
        assert refused.faults
