"""Reading and writing one file by a fixed script inside the container.

The script runs as the container's own user, launched by absolute path and with the system's
directories only on its PATH, and tells what is wrong by its exit code: no wording of an engine,
a shell or a locale is read. `$1` is the file, `$2` its folder or a limit.
"""

import errno
import os

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = "/bin/sh"
IS_DIRECTORY, MISSING, FORBIDDEN, NOT_REGULAR, TOO_LARGE, NO_FOLDER = range(41, 47)

# A path below a folder that may not be searched looks missing to `test -e`; so the nearest
# folder that is there decides.
_PROLOGUE = f"""PATH={SYSTEM_PATH}; export PATH; LC_ALL=C; export LC_ALL
above() {{ at=${{1%/*}}; while [ -n "$at" ] && ! [ -e "$at" ]; do at=${{at%/*}}; done
  at=${{at:-/}}; }}
"""
# As in Inspect's own Docker provider, a file whose owner may not read it counts as unreadable
# for root too; the same is done for writing.
_READ = f"""{_PROLOGUE}
[ -d "$1" ] && exit {IS_DIRECTORY}
[ -e "$1" ] || {{ above "$1"; [ -d "$at" ] && ! [ -x "$at" ] && exit {FORBIDDEN}; exit {MISSING}; }}
[ -f "$1" ] || exit {NOT_REGULAR}
[ -r "$1" ] || exit {FORBIDDEN}
set -- "$1" "$2" $(stat -L -c '%A %s' -- "$1")
case $3 in ?r*) ;; *) exit {FORBIDDEN};; esac
[ "$4" -le "$2" ] || exit {TOO_LARGE}
exec head -c "$(($2 + 1))" -- "$1"
"""
_WRITE = f"""{_PROLOGUE}
[ -d "$1" ] && exit {IS_DIRECTORY}
if [ -e "$1" ]; then
  [ -p "$1" ] || [ -S "$1" ] && exit {NOT_REGULAR}
  [ -w "$1" ] || exit {FORBIDDEN}
  case $(stat -L -c %A -- "$1") in ??w*) ;; *) exit {FORBIDDEN};; esac
else
  above "$1"
  [ -d "$at" ] || exit {NO_FOLDER}
  [ -w "$at" ] && [ -x "$at" ] || exit {FORBIDDEN}
  mkdir -p -- "$2" || exit 1
fi
exec cat > "$1"
"""


def read_command(path: str, limit: int) -> list[str]:
    """Print at most `limit` bytes of a file; one byte more if it is larger."""
    return [SHELL, "-c", _READ, "sh", path, str(limit)]


def write_command(path: str) -> list[str]:
    """Write standard input to a file, with its folders."""
    return [SHELL, "-c", _WRITE, "sh", path, os.path.dirname(path)]


_ERRORS: dict[int, tuple[type[OSError], int]] = {
    IS_DIRECTORY: (IsADirectoryError, errno.EISDIR),
    MISSING: (FileNotFoundError, errno.ENOENT),
    FORBIDDEN: (PermissionError, errno.EACCES),
    NO_FOLDER: (NotADirectoryError, errno.ENOTDIR),
    NOT_REGULAR: (OSError, errno.EINVAL),
}


def file_error(code: int, file: str, said: str) -> OSError:
    """The exception of the contract for an exit code of either script."""
    kind, number = _ERRORS.get(code, (OSError, errno.EIO))
    what = os.strerror(number)
    return kind(number, what if code in _ERRORS else f"{what}: {said.strip()[-500:]}", file)
