"""The results store: what was measured, in five tables."""

from propensity.results.store.tables import (
    Frames,
    Store,
    StoreError,
    StoreMissing,
    StoreTooNew,
    StoreUnreachable,
    default_store,
    open_store,
)

__all__ = [
    "Frames",
    "Store",
    "StoreError",
    "StoreMissing",
    "StoreTooNew",
    "StoreUnreachable",
    "default_store",
    "open_store",
]
