"""The field's own linter over our layout: three passes, no failure, no unlisted warning."""

from dataclasses import replace
from pathlib import Path

import pytest
from inspect_evals_lint import LintConfig, PackageReport, lint_package, lint_repository, load_config

ROOT = Path(__file__).parent.parent

ACCEPTED = {
    ("sandboxes", "sandbox_privileges"): "set-up drops privileges itself and needs these five",
    ("sandboxes", "dockerfile_locking"): "the default base is pinned by digest; sites without a "
    "registry pass a bootstrapped one as build argument",
    **{
        (task, "e2e_test"): "tests evaluate through tests.support.run, which the rule cannot see"
        for task in ("hirewatch", "instrumental", "juice", "rpeval")
    },
}
"""(package, rule) → why its warning stands."""


def findings(reports: list[PackageReport]) -> list[str]:
    return [
        f"{report.name}: {found.rule.code if found.rule else '?'} "
        f"{found.rule.name if found.rule else '?'}: {found.file}:{found.line}: {found.message}"
        for report in reports
        for found in report.diagnostics
        if found.status != "suppressed"
        and (report.name, found.rule.name if found.rule else "") not in ACCEPTED
    ]


def shared() -> LintConfig:
    return replace(
        load_config(ROOT),
        source_root=".",
        import_prefix="propensity",
        registry="none",
        helper_dirs=frozenset({"propensity", "scorers", "sandboxes", "results"}),
        ignore_dirs=frozenset({"tasks", "tests"}),
    )


def test_benchmarks_follow_the_fields_rules() -> None:
    report = lint_repository(ROOT, load_config(ROOT))
    assert {package.name for package in report.packages} >= {"hirewatch", "instrumental"}
    assert findings(report.packages) == []


@pytest.mark.parametrize("room", ["propensity", "scorers", "sandboxes", "results"])
def test_shared_rooms_follow_the_fields_rules(room: str) -> None:
    assert findings([lint_package(ROOT, room, shared())]) == []


def test_images_are_pinned() -> None:
    images = replace(shared(), helper_dirs=frozenset(), select=("IEBP005", "IEBP007", "IESC001"))
    assert findings([lint_package(ROOT, "sandboxes", images)]) == []
