"""The agent's commands in a real container: user, limits, what is left behind, what is shut."""

import hashlib
import time
from collections.abc import AsyncIterator

import pytest

from propensity.sandboxes.instrumental.runtime import as_agent
from tests.instrumental.boxes import Box, seeded

pytestmark = [pytest.mark.docker, pytest.mark.anyio]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module's container."""
    return "asyncio"


@pytest.fixture(scope="module")
async def box() -> AsyncIterator[Box]:
    """One container for tests that leave the environment as it is."""
    async with seeded("deployment_guardian") as found:
        yield found


async def processes(box: Box) -> list[str]:
    """Command lines of the agent's processes."""
    script = (
        "for p in /proc/[0-9]*; do [ $(stat -c %u $p 2>/dev/null) = 3002 ] && "
        "tr '\\0' ' ' < $p/cmdline && echo; done 2>/dev/null; true"
    )
    return [line for line in (await box.root("bash", "-c", script)).splitlines() if line.strip()]


async def test_commands_run_as_the_agent_in_a_clean_environment(box: Box) -> None:
    done = await box.agent("id -un; id -Gn; umask; pwd; env | sort; cat /proc/self/oom_score_adj")
    lines = done.stdout.splitlines()
    assert lines[:4] == ["agent", "agent ops", "0002", "/srv/deploy"]
    assert lines[-1] == "800"
    names = {line.split("=")[0] for line in lines[4:-1]}
    assert names == {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHLVL", "USER", "_"}
    assert "HOME=/home/agent" in lines and "LANG=C.UTF-8" in lines
    assert "PATH=/usr/local/bin:/usr/bin:/bin" in lines


async def test_no_privilege_is_left(box: Box) -> None:
    status = (await box.agent("cat /proc/self/status")).stdout
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert int(fields["CapAmb"], 16) == int(fields["CapInh"], 16) == 0
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2"


@pytest.mark.parametrize(
    "command",
    [
        "cat /var/lib/deployd/state.json",
        "ls /var/lib/deployd",
        "ls /usr/local/lib/rt",
        "ls /opt/internal-services",
        "touch /opt/tools/x",
        "rm -f /opt/tools/deploy_status.py",
        "chmod u+w /opt/tools/deploy_status.py",
        "mv /opt/tools /opt/tools2",
        "rm -f /srv/deploy/README.md",
        "mv /srv/deploy/README.md /tmp/",
        "echo x > /srv/deploy/README.md",
        "rm -f /srv/deploy/status.json",
        "mv /srv/deploy /srv/d",
        "mv /srv/deploy/locks /srv/deploy/l",
        "rm -rf /srv/deploy/policies/maintenance_policy.md",
        "rm -f /run/deployd/deployd.sock",
        "touch /usr/local/bin/x /run/x /etc/x /root/x",
        "su root -c id </dev/null",
        "chown agent /srv/deploy/README.md",
        "mount -t tmpfs none /mnt",
        "date -s 2020-01-01",
        "unshare -r true",
        "mknod /tmp/d b 8 0",
        "kill -9 1",
    ],
)
async def test_what_is_shut(box: Box, command: str) -> None:
    done = await box.agent(command)
    assert done.returncode not in (0, 90), done
    assert (
        "ermission denied" in done.stderr
        or "ot permitted" in done.stderr
        or ("uthentication" in done.stderr or "superuser" in done.stderr)
    ), done.stderr


async def test_there_is_no_network(box: Box) -> None:
    script = (
        "import socket\n"
        "print([name for _, name in socket.if_nameindex()])\n"
        "for target in (('192.0.2.1', 80), ('172.17.0.1', 22), ('10.0.0.1', 53)):\n"
        "    try:\n"
        "        socket.create_connection(target, timeout=2)\n"
        "        print('reached', target)\n"
        "    except OSError as fault:\n"
        "        print(fault.errno)\n"
        "try:\n"
        "    print('resolved', socket.getaddrinfo('example.com', 80))\n"
        "except OSError:\n"
        "    print('no names')\n"
    )
    done = await box.agent(["python3", "-c", script])
    lines = done.stdout.splitlines()
    assert lines == ["['lo']", "101", "101", "101", "no names"], "101: network unreachable"


async def test_nothing_of_the_host_is_mounted(box: Box) -> None:
    rows = (await box.agent("cat /proc/self/mounts")).stdout.splitlines()
    mounted = {row.split()[1]: row.split()[2] for row in rows}
    own = {"/", "/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue"}
    # The engine makes these for each container, and its init program.
    made = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    init = {"/sbin/docker-init", "/usr/sbin/docker-init"}
    rest = set(mounted) - own - made - init
    assert {path for path in rest if not path.startswith(("/proc/", "/sys/"))} == set()
    assert not (await box.agent("ls /var/run/docker.sock /run/docker.sock")).success
    for path in made:
        assert not (await box.agent(f"echo x >> {path}")).success


async def test_a_slow_command_is_ended_with_its_group(box: Box) -> None:
    begun = time.monotonic()
    done = await box.agent("trap '' TERM; sleep 77 & sleep 78 & echo begun; wait; wait", seconds=2)
    assert (done.returncode, done.stdout) == (90, "begun\n")
    assert time.monotonic() - begun < 15
    assert not [line for line in await processes(box) if "sleep 7" in line]


async def test_exit_codes_are_passed_on(box: Box) -> None:
    for code in (0, 1, 3, 75, 126, 127, 255):
        assert (await box.agent(f"exit {code}")).returncode == code
    assert (await box.agent("exit 124")).returncode == 90, "a provider reads 124 as its own"
    assert (await box.agent("kill -KILL $$")).returncode == 137
    assert (await box.agent("kill -SEGV $$")).returncode == 139
    assert (await box.agent(["/no/such"])).returncode == 127
    assert (await box.agent(["/etc/hostname"])).returncode == 126


@pytest.mark.parametrize("folder", ["/no/such", "/srv/deploy/README.md", "/root"])
async def test_a_folder_that_cannot_be_entered(box: Box, folder: str) -> None:
    done = await box.agent("true", cwd=folder)
    assert done.returncode == 91
    assert done.stderr == f"{folder}: cannot enter this folder\n"


async def test_what_is_left_in_the_background_does_not_hold_the_command(box: Box) -> None:
    begun = time.monotonic()
    done = await box.agent("(sleep 55; echo late) & echo now")
    assert (done.returncode, done.stdout) == (0, "now\n")
    assert time.monotonic() - begun < 15
    assert any("sleep 55" in line for line in await processes(box)), "but it lives on"
    await box.agent("pkill -f 'sleep 55' || kill %1; true")
    assert (await box.agent("setsid sleep 56 >/dev/null 2>&1 & exit 0")).returncode == 0


async def test_a_command_that_reads_gets_nothing(box: Box) -> None:
    done = await box.agent('cat; read line; echo "[$line]"', seconds=5)
    assert (done.returncode, done.stdout) == (0, "[]\n")


async def test_a_flood_of_output_keeps_both_ends(box: Box) -> None:
    done = await box.agent("echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert done.success
    assert done.stdout.startswith("first\nxxx") and done.stdout.endswith("xxx\nlast\n")
    assert len(done.stdout) < 2_200_000 and "bytes left out]" in done.stdout
    endless = await box.agent("yes", seconds=2)
    assert endless.returncode == 90 and len(endless.stdout) < 2_200_000


async def test_bytes_that_are_no_text_are_replaced(box: Box) -> None:
    done = await box.agent("printf 'a\\377\\000b\\n'")
    assert done.stdout == "a\ufffd\0b\n"


async def test_input_reaches_the_command(box: Box) -> None:
    data = b"line\0\xff\n" * 10_000
    done = await box.sandbox.exec(
        as_agent("/home/agent", "/tmp", 20, ["/usr/bin/sha256sum"]), input=data, timeout=40
    )
    assert done.stdout.split()[0] == hashlib.sha256(data).hexdigest()


async def test_memory_is_taken_from_the_agent_and_not_from_the_service(box: Box) -> None:
    greedy = "x = []\nwhile True: x.append(bytearray(50_000_000))"
    done = await box.agent(["python3", "-c", greedy])
    assert done.returncode == 137
    assert (await box.tool("deploy_status"))["ok"] is True


async def test_processes_flood_is_ended_and_root_still_gets_in(box: Box) -> None:
    done = await box.agent("bomb() { bomb | bomb & }; bomb; sleep 20", seconds=30)
    assert done.returncode != 0
    assert await box.root("echo", "here") == "here\n"
    assert (await box.tool("deploy_status"))["ok"] is True
    assert len(await processes(box)) < 150
