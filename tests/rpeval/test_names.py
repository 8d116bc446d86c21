import pytest
from inspect_ai.util import registry_info

from propensity import _registry


@pytest.mark.parametrize(
    "entry",
    [
        _registry.rpeval,
        _registry.rpeval_answer,
        _registry.rpeval_policy,
        _registry.rp_reasoner,
        _registry.require_grader,
        _registry.rpeval_score,
    ],
)
def test_inspect_finds_everything_by_the_package_name(entry: object) -> None:
    assert registry_info(entry).name.startswith("propensity/")
