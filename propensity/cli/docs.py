"""`propensity docs`: the generated tables of the READMEs, for maintainers."""

import inspect
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from propensity.cli.common import TASKS, FallsShort, Refused, console
from propensity.common.versions import EvalCard, load_card

BLOCK = re.compile(r"(<!-- generated:(?P<name>[a-z-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
CODE = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)


@click.command(epilog="Example: propensity docs --check")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a block is stale.")
def command(check: bool) -> None:
    """Write the generated blocks of the READMEs (run in a checkout)."""
    root = Path.cwd()
    if not (root / "pyproject.toml").is_file() or not (root / "tasks").is_dir():
        raise Refused("this folder is no checkout of propensity", "Run it where README.md lies.")
    pages = [root / "README.md", *sorted(root.glob("tasks/*/README.md"))]
    pages += sorted(root.glob("docs/**/*.md"))
    stale, faults = [], []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fresh = BLOCK.sub(lambda match, page=page: _block(match, page), text)  # type: ignore[misc]
        if fresh != text:
            stale.append(page.relative_to(root))
            if not check:
                page.write_text(fresh, encoding="utf-8")
        faults += [f"{page.relative_to(root)}: {fault}" for fault in parameter_faults(fresh)]
    out = console()
    for name in stale:
        out.print(f"{'stale' if check else 'wrote'}: {name}", markup=False)
    for fault in faults:
        out.print(fault, markup=False, soft_wrap=True)
    if faults or (check and stale):
        raise FallsShort(
            f"{len(stale)} stale pages, {len(faults)} faults", "Run propensity docs, mend the rest."
        )
    out.print(f"{len(pages)} pages are current", markup=False)


def parameter_faults(text: str) -> list[str]:
    """List the `-T` names and values in a page's commands that the named task does not have."""
    faults = []
    for line in "\n".join(CODE.findall(text)).replace("\\\n", " ").splitlines():
        named = re.search(r"propensity/(\w+)|propensity (?:verify|plan|run) (\w+)", line)
        task = next(filter(None, named.groups()), None) if named else None
        if task not in TASKS:
            continue
        words = shlex.split(line, comments=True)
        given = [after for word, after in zip(words, words[1:], strict=False) if word == "-T"]
        parameters = task_parameters(task)
        for name, _, value in (word.partition("=") for word in given):
            if name not in parameters:
                faults.append(f"{task} has no parameter {name!r}: {line.strip()}")
            elif (allowed := _allowed(parameters[name][1])) and value not in allowed:
                faults.append(f"{name} of {task} cannot be {value!r}: {line.strip()}")
    return faults


def task_function(task: str) -> Callable[..., Any]:
    """Return the function behind a task's decorator."""
    function = getattr(import_module(f"propensity.tasks.{task}.{task}"), task)
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return unwrapped


def task_parameters(task: str) -> dict[str, tuple[inspect.Parameter, Any]]:
    """Return parameter name → (parameter, type), without `**unknown`."""
    function = task_function(task)
    hints = get_type_hints(function)
    return {
        name: (parameter, hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def argument_texts(docstring: str) -> dict[str, str]:
    """Read the `Args:` section of a Google docstring: name → text on one line."""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.cleandoc(docstring), re.M | re.S)
    texts: dict[str, str] = {}
    name = ""
    for line in (section[1] if section else "").splitlines():
        if entry := re.match(r" {4}(\*{0,2}\w+)(?: \([^)]*\))?: (.*)", line):
            name, texts[entry[1]] = entry[1], entry[2]
        elif name and line.strip():
            texts[name] += " " + line.strip()
    return texts


def parameters_block(task: str) -> str:
    """Render one row per parameter: name, type, default, allowed, meaning."""
    meanings = argument_texts(task_function(task).__doc__ or "")
    rows = ["| name | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    for name, (parameter, hint) in task_parameters(task).items():
        allowed = ", ".join(f"`{value}`" for value in _allowed(hint))
        rows.append(
            f"| `{name}` | {_type_name(hint)} | `{parameter.default}` | {allowed} | "
            f"{meanings[name]} |"
        )
    return "\n".join(rows)


def usage_block(task: str) -> str:
    """Render the commands to start with."""
    return f"""```bash
inspect eval propensity/{task} --model openai/gpt-5.5            # needs-key
inspect eval propensity/{task} --model embedded/smollm2-135m --limit 2
inspect eval --run-config tasks/{task}/run_configs/smoke.yaml --model embedded/smollm2-135m
propensity verify {task}
propensity compare --task {task}
inspect view
```"""


def benchmarks_block() -> str:
    """Render the table of benchmarks from their cards."""
    rows = ["| task | question | samples | sandbox | headline metric |", "|---|---|---|---|---|"]
    for task in TASKS:
        card = task_card(task)
        main = card.tasks[0]
        rows.append(
            f"| [`propensity/{task}`](tasks/{task}/README.md) | {card.description} | "
            f"{main.dataset_samples} | {', '.join(card.metadata.sandbox) or '–'} | "
            f"`{main.headline}` |"
        )
    return "\n".join(rows)


def task_card(task: str) -> EvalCard:
    """Return a benchmark's `eval.yaml`."""
    return load_card(str(Path(inspect.getfile(task_function(task)))))


def _block(match: re.Match[str], page: Path) -> str:
    task = page.parent.name
    name = match["name"]
    if name == "benchmarks":
        body = benchmarks_block()
    elif name == "parameters":
        body = parameters_block(task)
    elif name == "usage":
        body = usage_block(task)
    else:
        raise Refused(f"{page}: there is no generator for {name!r}", "See propensity/cli/docs.py.")
    return f"{match[1]}{body}\n{match[3]}"


def _allowed(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return tuple(str(value) for value in get_args(hint))
    if hint is bool:
        return ("true", "false")
    return tuple(value for part in get_args(hint) for value in _allowed(part))


def _type_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "text"
    names = {str: "text", int: "integer", float: "number", bool: "boolean", type(None): ""}
    if hint in names:
        return names[hint]
    parts = dict.fromkeys(_type_name(part) for part in get_args(hint))
    inner = " or ".join(part for part in parts if part)
    return f"list of {inner}" if get_origin(hint) is list else inner
