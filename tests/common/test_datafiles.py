import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from propensity.common.datafiles import (
    DataFileError,
    content_sha256,
    read_json,
    read_jsonl,
    read_yaml,
    validated,
)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def faults(caught: pytest.ExceptionInfo[DataFileError]) -> list[str]:
    return [str(fault).split("file.yaml", 1)[1] for fault in caught.value.faults]


def test_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="No such file") as caught:
        read_yaml(tmp_path / "absent.yaml")
    assert caught.value.unreadable


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_yaml(write(tmp_path, b"a: 1\nb: \xff\n"))
    assert faults(caught) == [":2: byte 8 is not UTF-8; save the file as UTF-8"]


def test_duplicate_keys_at_every_depth_are_faults(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_yaml(write(tmp_path, "a: 1\nitems:\n  - x: 1\n    x: 2\na: 2\n"))
    assert faults(caught) == [
        ":4: items.0: key 'x' stands twice; keep one",
        ":5: key 'a' stands twice; keep one",
    ]


def test_lines_are_known_down_to_list_entries(tmp_path: Path) -> None:
    document = read_yaml(write(tmp_path, "a: 1\nitems:\n  - {x: 1}\n  - {x: 2}\n"))[0]
    assert document.line(("items", 1, "x")) == 4
    assert document.line(("items", 1, "x", "deeper")) == 4
    assert document.line(("absent",)) == 1


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_empty_file_is_a_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataFileError, match="is empty"):
        read_yaml(write(tmp_path, text))


@pytest.mark.parametrize("text", ["a: [1\nb: 2", "a: !!python/object:os.system {}", "\x00"])
def test_what_is_not_plain_yaml_is_a_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataFileError, match="not YAML"):
        read_yaml(write(tmp_path, text))


def test_half_a_character_is_a_fault_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_yaml(write(tmp_path, 'a: x\nb: ["fine", "\\ud800 x"]\n'))
    assert faults(caught) == [":2: b.1: holds \\ud800, half of a character; remove it"]


def test_every_date_that_does_not_exist_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_yaml(write(tmp_path, "a: 2026-01-31\nb: 2026-13-45\nc:\n  d: 2026-02-30\n"))
    places = [fault.split(" is no such value", 1)[0] for fault in faults(caught)]
    assert places == [":2: b: '2026-13-45'", ":4: c.d: '2026-02-30'"]


@pytest.mark.parametrize("text", ["a: &x\n  b: *x\n", "[" * 3000])
def test_nesting_without_end_is_a_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataFileError) as caught:
        read_yaml(write(tmp_path, text))
    assert faults(caught) == [": is nested too deeply, or an alias holds itself; flatten it"]


def test_validation_lists_every_field_with_its_line(tmp_path: Path) -> None:
    class Item(BaseModel):
        model_config = ConfigDict(extra="forbid")
        name: str
        size: int

    path = write(tmp_path, "name: [1]\nsize: big\nextra: 1\n")
    document = read_yaml(path)[0]
    with pytest.raises(DataFileError) as caught:
        validated(Item, document.data, file=str(path), line_of=document.line, where="item-1")
    assert [line.split(": ")[0] + "|" + line.split(": ")[2] for line in faults(caught)] == [
        ":1|name",
        ":2|size",
        ":3|extra",
    ]


def test_json_duplicates_and_lines(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="key stands twice"):
        read_json(write(tmp_path, '{"a": {"b": 1, "b": 2}}'))
    with pytest.raises(DataFileError) as caught:
        read_jsonl(write(tmp_path, '{"a": 1}\n\n{"a": }\nnope\n'))
    assert [line.split(":")[1] for line in faults(caught)] == ["3", "4"]
    assert read_jsonl(write(tmp_path, '{"a": 1}\n\n[2]\n')) == [(1, {"a": 1}), (3, [2])]


def test_digest_does_not_depend_on_key_order() -> None:
    assert content_sha256({"b": 1, "a": [2]}) == content_sha256({"a": [2], "b": 1})
    assert content_sha256({"a": [2, 1]}) != content_sha256({"a": [1, 2]})


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x202E, "RIGHT-TO-LEFT OVERRIDE"),
        (0x2066, "LEFT-TO-RIGHT ISOLATE"),
        (0x200B, "ZERO WIDTH SPACE"),
        (0xE0041, "TAG LATIN CAPITAL LETTER A"),
        (0x7, "a control character"),
    ],
)
def test_text_that_nobody_sees_is_a_fault(tmp_path: Path, code: int, name: str) -> None:
    wanted = f"holds U+{code:04X} ({name}), which nobody sees; remove it"
    escaped = json.dumps(f"a{chr(code)}b")
    with pytest.raises(DataFileError) as caught:
        read_yaml(write(tmp_path, f'a: 1\nb: ["a\\U{code:08X}b"]\n'))
    assert faults(caught) == [f":2: b.0: {wanted}"]
    with pytest.raises(DataFileError) as caught:
        read_jsonl(write(tmp_path, f'{{"a": 1}}\n{{"b": ["x", {escaped}]}}\n'))
    assert faults(caught) == [f":2: b.1: {wanted}"]
    assert read_jsonl(write(tmp_path, escaped), any_text=True) == [(1, f"a{chr(code)}b")]


def test_what_scripts_and_emoji_need_is_no_fault(tmp_path: Path) -> None:
    text = (
        "ক্\u200dষ \u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f52c \u200e(\u05d0)\u200f e\u0301"
    )
    assert read_yaml(write(tmp_path, f"a: {text}"))[0].data == {"a": text}
    assert read_jsonl(write(tmp_path, json.dumps({"a": text}))) == [(1, {"a": text})]
