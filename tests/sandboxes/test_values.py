"""The values file for Kubernetes: what can be checked without a cluster."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider.compose import service_of_file, size

COMPOSE = Path(compose_file("instrumental"))


@pytest.fixture
def values() -> dict[str, Any]:
    """The shipped values."""
    loaded: dict[str, Any] = yaml.safe_load(
        COMPOSE.with_name("values.yaml").read_text(encoding="utf-8")
    )
    return loaded


def test_same_limits_and_rights_as_the_compose_file(values: dict[str, Any]) -> None:
    [(name, pod)] = values["services"].items()
    service = service_of_file(str(COMPOSE))
    rights = pod["securityContext"]
    assert (name, pod["image"]) == (service.name, service.image)
    assert pod["workingDir"] == service.working_dir
    assert pod["networkIsolated"] is True
    assert rights["capabilities"] == {"drop": ["ALL"], "add": list(service.cap_add)}
    assert (rights["allowPrivilegeEscalation"], rights["runAsUser"]) == (False, 0)
    limits = pod["resources"]["limits"]
    assert limits == pod["resources"]["requests"]
    assert size(limits["memory"]) == service.memory
    assert size(limits["ephemeral-storage"]) == service.disk
    assert float(limits["cpu"]) == service.cpus
    assert not set(values) & {"allowDomains", "allowCIDR", "allowEntities", "networks"}


def test_accepted_by_the_charts_own_schema(values: dict[str, Any]) -> None:
    pytest.importorskip("k8s_sandbox", reason="inspect-k8s-sandbox is not installed (extra k8s)")
    chart = files("k8s_sandbox") / "resources" / "helm" / "agent-env"
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    jsonschema.validate({**defaults, **values}, schema)
