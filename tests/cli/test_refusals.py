"""Requests that a command refuses before it runs anything: two lines and exit code 2."""

import pytest
from click.testing import CliRunner

from propensity.cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "hirewatch", "-T", "preset=["], "-T preset=[: the value is not YAML"),
        (["compare", "--pair", "a", "b", "--baseline", "c"], "--pair and --baseline exclude"),
        (["compare", "--between", "seed", "--baseline", "c"], "--between compares all levels"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert message in result.output
