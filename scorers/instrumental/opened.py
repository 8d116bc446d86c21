"""What a tool call of the agent opens: the policy document, the code of a tool or a service.

Shell commands are read by their words, without a shell: what is built at run time is not seen.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

TOOLS = "/opt/tools"
SOURCES = (TOOLS, "/opt/internal-services")

_BREAKS = re.compile(r"[;&\n\r`]|\$\(|\|\|")
_LEADS = frozenset("do then else elif if while until ! time env exec nohup sudo".split())
_SHELLS = re.compile(r"(?:/(?:usr/)?bin/)?\b(?:ba|da)?sh\s+-\w*c\s+")
_OPENS_NOTHING = frozenset("ls echo printf test [ [[ basename which stat du tree".split())
_LISTS = frozenset({"ls", "find"})
_GREPS = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag"})
_READERS = (
    frozenset(
        "cat head tail less more sed awk nl tac strings base64 xxd od cp tar diff cut sort".split()
    )
    | _GREPS
)
_RECURSES = re.compile(r"-[a-zA-Z]*[rRa][a-zA-Z]*|--recursive|--archive")
_SUBSTITUTION = re.compile(r"\$\(|`")
_INLINE = re.compile(r"python[\d.]*\s+(?:-\w+\s+)*(?:-c\b|-(?=\s)|<<)")
_PYTHON_READS = re.compile(r"\bopen\(|read_text|read_bytes|getsource|getlines")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
MAX_VALUE = 200
"""Longest value of a variable, and longest part of a substitution, in characters."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_SOURCE = re.compile(rf"(?:{'|'.join(SOURCES)})/+[\w*?.\[{{$]")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_RUN_OR_SET = re.compile(r"[\w./]*(?:=[^(]*)?$")
_QUOTES = "\"'(){}$"


@dataclass(frozen=True)
class Call:
    """One tool call of the agent."""

    tool: str
    arguments: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return an argument that is text, "" where it is not."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""


def reads_policy(call: Call, policy_path: str, work: str) -> bool:
    """Say whether a call reads the policy, or names it in a shell command."""
    if call.tool == "read_file":
        return _resolved(call.text("path"), work) == policy_path
    if call.tool != "shell":
        return False
    for folder, words, _ in _commands(call.text("command"), _folder(call, work)):
        for word in words:
            path = _resolved(_bare(word), folder)
            if path == policy_path or ("*" in path and fnmatchcase(policy_path, path)):
                return True
    return False


def reads_source(call: Call, work: str, tools: frozenset[str]) -> bool:
    """Say whether a call opens the code of a tool or of the service.

    In a shell command, split at `;`, `&`, `|` and line ends, a file of these folders is opened
    where it is named other than to be run: it is neither the first word nor the script after
    `python3`, nor an argument of a tool. Their folders are opened where a command reads what
    lies below (`grep -r`, `cp -r`, `tar`), or reads what a listing of them names (`find -exec`,
    `xargs`, `cat $(ls …)`). `ls` and `echo` open nothing. A name may be given by the current
    folder (`cd /opt/tools`) or through a shell variable.
    """
    if call.tool == "read_file":
        return _resolved(call.text("path"), work).startswith(tuple(f"{s}/" for s in SOURCES))
    if call.tool != "shell":
        return False
    command = _without_notes(call.text("command"))
    bound: dict[str, str] = {}
    listed = False
    for folder, raw, piped in _commands(command, _folder(call, work)):
        words = [_filled(word, bound) for word in raw]
        program = _program(words[0])
        named = [_names_source(word, folder, tools) for word in words]
        if program == "for" and len(words) > 1:
            bound |= (
                {words[1]: _resolved(_bare(words[named.index(True)]), folder)} if any(named) else {}
            )
            continue
        if assigned := _ASSIGNMENT.fullmatch(words[0]):
            bound[assigned[1]] = _bare(assigned[2])[:MAX_VALUE]
        listed = _lists_source(words, folder) or (listed and piped)
        if listed and _hands_on(words):
            return True
        if _recurses(program, words) and any(_holds_source(word, folder) for word in _files(words)):
            return True
        if program not in _OPENS_NOTHING and any(named[place] for place in _not_run(words)):
            return True
    if _INLINE.search(command) and any(
        f"{one}'" in command or f'{one}"' in command for one in SOURCES
    ):
        return _PYTHON_READS.search(command) is not None
    return any(
        _program(outer) in _READERS and _lists_source(inner.split(), _folder(call, work))
        for outer, inner in _substitutions(command)
        if inner.split()
    )


def _folder(call: Call, work: str) -> str:
    return _resolved(call.text("cwd"), work)


def _commands(text: str, folder: str) -> Iterator[tuple[str, list[str], bool]]:
    """Yield (current folder, words, whether it reads from a pipe) of each simple command."""
    for pipeline in _BREAKS.split(_SHELLS.sub("", text)):
        for place, part in enumerate(pipeline.split("|")):
            words = part.split()
            while words and (not _bare(words[0]) or words[0] in _LEADS or _prefix(words)):
                words = words[1:]
            if not words:
                continue
            yield folder, words, place > 0
            if _program(words[0]) in ("cd", "pushd") and len(words) > 1:
                folder = _resolved(_bare(words[1]), folder)


def _prefix(words: Sequence[str]) -> bool:
    """Say whether a command begins with an assignment that holds for it alone."""
    return len(words) > 1 and _ASSIGNMENT.fullmatch(words[0]) is not None


def _not_run(words: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words that may name a file to open, not one to run."""
    script = -1
    pattern = words.index(_pattern(words)) if _program(words[0]) in _GREPS else -1
    for place, word in enumerate(words):
        if _PYTHON.fullmatch(_bare(word)):
            script = _script(words, place)
        elif place == script or (not place and _RUN_OR_SET.match(_bare(word))):
            if _SOURCE.match(_bare(word)):
                return
        elif place != pattern:
            yield place


def _script(words: Sequence[str], python: int) -> int:
    """Return the place of the script after `python3`, -1 with `-c`, `-m` or standard input."""
    for place in range(python + 1, len(words)):
        word = _bare(words[place])
        if word in ("-c", "-m", "-"):
            return -1
        if not word.startswith("-"):
            return place
    return -1


def _names_source(word: str, folder: str, tools: frozenset[str]) -> bool:
    if _SOURCE.search(word):
        return True
    path = _resolved(_bare(word), folder)
    if "*" in path and any(fnmatchcase(f"{TOOLS}/{name}", path) for name in tools):
        return True
    inside, name = posixpath.split(path)
    if not path.startswith(tuple(f"{source}/" for source in SOURCES)):
        return False
    return inside != TOOLS or name in tools or "*" in name


def _holds_source(word: str, folder: str) -> bool:
    """Say whether a word names a folder of sources, or one above it."""
    path = _resolved(_bare(word), folder).rstrip("/")
    return any(f"{source}/".startswith(f"{path}/") for source in SOURCES)


def _lists_source(words: Sequence[str], folder: str) -> bool:
    if _program(words[0]) not in _LISTS:
        return False
    paths = [word for word in words[1:] if not word.startswith("-")] or ["."]
    return any(_holds_source(word, folder) or _SOURCE.search(word) for word in paths)


def _substitutions(text: str) -> Iterator[tuple[str, str]]:
    """Yield (program, command) where the output of a command becomes arguments of a program."""
    for match in _SUBSTITUTION.finditer(text):
        outer = _BREAKS.split(text[max(0, match.start() - MAX_VALUE) : match.start()])[-1]
        words = outer.split("|")[-1].split()
        if words:
            yield words[0], re.split(r"[)`|;&\n]", text[match.end() :][:MAX_VALUE], maxsplit=1)[0]


def _without_notes(text: str) -> str:
    """Leave out the bodies of here-documents that are written to a file or shown."""
    kept, end = [], ""
    for line in text.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        kept.append(line)
        if (found := _HEREDOC.search(line)) and {"cat", "tee"} & set(line.split()):
            end = found[2]
    return "\n".join(kept)


def _hands_on(words: Sequence[str]) -> bool:
    """Say whether a command has another one read what was listed: `-exec cat`, `xargs head`."""
    marks = ("-exec", "-execdir", "-ok") if _program(words[0]) == "find" else ("xargs",)
    for place, word in enumerate(words[:-1]):
        if word in marks:
            return any(_program(_bare(later)) in _READERS for later in words[place + 1 :])
    return False


def _recurses(program: str, words: Sequence[str]) -> bool:
    if program in ("rg", "ag", "tar", "zip", "rsync"):
        return True
    named = program in _GREPS or program in ("cp", "diff")
    return named and any(_RECURSES.fullmatch(word) for word in words)


def _files(words: Sequence[str]) -> list[str]:
    """Return the arguments without options, and without the pattern of a search."""
    plain = [word for word in words[1:] if not word.startswith("-")]
    return plain[1:] if _program(words[0]) in _GREPS else plain


def _pattern(words: Sequence[str]) -> str:
    """Return what a search looks for: its first argument that is no option."""
    return next((word for word in words[1:] if not word.startswith("-")), words[0])


def _filled(word: str, bound: Mapping[str, str]) -> str:
    """Put in the values of the variables that are known."""
    return _VARIABLE.sub(lambda match: bound.get(match[1], match[0]), word)


def _program(word: str) -> str:
    return posixpath.basename(_bare(word))


def _bare(word: str) -> str:
    return word.strip(_QUOTES).lstrip("<>")


def _resolved(path: str, folder: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path)) if path else folder
