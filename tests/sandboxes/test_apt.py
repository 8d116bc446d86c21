"""Where the engine's packages come from, and what that does to apt."""

from pathlib import Path

import pytest

from propensity.sandboxes.provision import apt
from propensity.sandboxes.provision.apt import AptError, Source

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://comment.example/debian bookworm main
deb [arch=amd64 signed-by=/keys/a.gpg] http://other.example/debian bookworm main contrib # here
deb-src http://sources.example/debian bookworm main
deb http://short.example
"""
MAIN = Source(
    ("http://mirror.example/debian",),
    ("bookworm", "bookworm-updates"),
    ("main",),
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)


def test_deb822_sources() -> None:
    assert apt.deb822(DEB822) == [MAIN]


def test_one_line_sources() -> None:
    assert apt.one_line(ONE_LINE) == [
        Source(("http://other.example/debian",), ("bookworm",), ("main", "contrib"), "/keys/a.gpg")
    ]


def test_sources_of_a_machine_without_our_own(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(ONE_LINE, encoding="utf-8")
    (parts / "debian.sources").write_text(DEB822, encoding="utf-8")
    (parts / "propensity-docker.sources").write_text(
        DEB822.replace("bookworm", "trixie"), encoding="utf-8"
    )
    (parts / "debian.sources.bak").write_text(DEB822, encoding="utf-8")
    assert [source.uris[0] for source in apt.sources(tmp_path)] == [
        "http://other.example/debian",
        "http://mirror.example/debian",
    ]


def test_next_release_comes_from_the_same_mirror_and_key_for_four_packages_only() -> None:
    assert apt.next_release_files("bookworm", [MAIN]) == {
        "preferences.d/propensity-docker": (
            "Package: *\nPin: release n=trixie\nPin-Priority: -1\n\n"
            "Package: docker.io docker-cli docker-compose docker-buildx\n"
            "Pin: release n=trixie\nPin-Priority: 990\n"
        ),
        "sources.list.d/propensity-docker.sources": (
            "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        ),
    }


def test_a_machine_with_its_own_next_release_is_left_alone() -> None:
    with pytest.raises(AptError, match="already has a source of trixie"):
        apt.next_release_files("bookworm", [MAIN, Source(("http://x",), ("trixie",), ("main",))])


def test_security_source_alone_is_no_mirror() -> None:
    with pytest.raises(AptError, match="no source of the release bookworm"):
        apt.mirror("bookworm", [Source(("http://x",), ("bookworm-security",), ("main",))])


@pytest.mark.parametrize("fails", [False, True])
def test_a_failed_installation_takes_its_files_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    ran: list[tuple[str, ...]] = []

    def apt_get(*words: str) -> None:
        ran.append(words)
        if fails and words[0] == "install":
            raise AptError("no such package")

    monkeypatch.setattr(apt, "apt_get", apt_get)
    monkeypatch.setattr(apt, "os_release", lambda text: {"VERSION_CODENAME": "bookworm"})
    (tmp_path / "sources.list").write_text(ONE_LINE, encoding="utf-8")
    if fails:
        with pytest.raises(AptError, match="no such package"):
            apt.install_engine(tmp_path)
    else:
        apt.install_engine(tmp_path)
    left = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*propensity*"))
    ours = ["preferences.d/propensity-docker", "sources.list.d/propensity-docker.sources"]
    assert left == ([] if fails else ours)
    assert [words[0] for words in ran] == ["update", "install"] + (["update"] if fails else [])


def test_os_release() -> None:
    text = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n\n'
    assert apt.os_release(text)["VERSION_ID"] == "12"
