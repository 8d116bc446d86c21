"""Labels of the taxonomy, the families they belong to, and who marks them (specification 2)."""

from collections.abc import Collection, Mapping
from typing import Literal, get_args

Label = Literal[
    "Explicit Linguistic Error",
    "Implicit Linguistic Error",
    "Cultural Inaccuracy",
    "Cultural Incoherence",
    "Cultural Specificity Error",
    "Cultural Connotation Error",
    "Cultural Missingness",
    "Logical Error",
]
LABELS: tuple[Label, ...] = get_args(Label)
LOGICAL: Label = "Logical Error"

CATEGORIES: Mapping[str, Label] = {
    "explicit": "Explicit Linguistic Error",
    "implicit": "Implicit Linguistic Error",
    "inaccuracy": "Cultural Inaccuracy",
    "incoherence": "Cultural Incoherence",
    "specificity": "Cultural Specificity Error",
    "connotation": "Cultural Connotation Error",
    "missingness": "Cultural Missingness",
    "logical": LOGICAL,
}
"""Short name used in keys → label."""

FAMILIES: Mapping[str, frozenset[Label]] = {
    "thin": frozenset({"Explicit Linguistic Error", "Cultural Inaccuracy"}),
    "thick": frozenset(
        {
            "Implicit Linguistic Error",
            "Cultural Incoherence",
            "Cultural Specificity Error",
            "Cultural Connotation Error",
            "Cultural Missingness",
        }
    ),
    "linguistic": frozenset({"Explicit Linguistic Error", "Implicit Linguistic Error"}),
    "cultural": frozenset(label for label in LABELS if label.startswith("Cultural")),
}
"""A label stands in one family of each kind; Logical Error stands in none."""

Finder = Literal["human", "model", "synthetic"]
FINDERS = ("human", "model", "both")
CRITICALITIES = ("Low", "Middle", "High")
"""From the lightest to the gravest."""

GROUP_SLICES: tuple[str, ...] = (
    *CATEGORIES,
    *FAMILIES,
    *FINDERS,
    *(f"crit_{level.lower()}" for level in CRITICALITIES),
)
"""Names of the sets of gold groups whose recall is reported."""


def group_slices(
    labels: Collection[Label], finders: Collection[Finder], criticality: str | None
) -> set[str]:
    """Name the slices that a gold group counts in.

    A group with two labels counts in both categories, and in both families if they differ.
    Synthetic marks make no finder.
    """
    names = {name for name, label in CATEGORIES.items() if label in labels}
    names |= {name for name, family in FAMILIES.items() if not family.isdisjoint(labels)}
    found_by = set(finders) & {"human", "model"}
    if found_by:
        names.add("both" if len(found_by) == 2 else found_by.pop())
    if criticality is not None:
        names.add(f"crit_{criticality.lower()}")
    return names
