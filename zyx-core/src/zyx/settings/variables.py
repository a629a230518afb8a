"""The environment variables that core reads. An empty variable counts as one that is not set.

Backends have variables of their own: ``ZYX_<NAME>_<FIELD>`` for the field of their section, see `zyx.settings.section`.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "ZYX_"

#: Which key each variable sets; every key of `Settings` has one.
KEY_OF: Final = {
    "ZYX_DEVICE": "devices.default",
    "ZYX_DEVICE_ORDER": "devices.order",
    "ZYX_BACKENDS": "devices.backends",
    "ZYX_BACKEND_TIMEOUT_S": "devices.timeout_s",
    "ZYX_DEBUG": "debug",
    "ZYX_AUTOTUNE": "autotune.enabled",
    "ZYX_AUTOTUNE_TIME_BUDGET_S": "autotune.time_budget_s",
    "ZYX_AUTOTUNE_SAVE_TO_DISK": "autotune.save_to_disk",
    "ZYX_AUTOTUNE_SEED": "autotune.seed",
    "ZYX_AUTOTUNE_N_LAUNCHES": "autotune.n_launches",
    "ZYX_AUTOTUNE_N_SEEDS": "autotune.n_seeds",
    "ZYX_AUTOTUNE_N_ADDED_PER_STEP": "autotune.n_added_per_step",
    "ZYX_AUTOTUNE_N_REMOVED_PER_STEP": "autotune.n_removed_per_step",
    "ZYX_AUTOTUNE_N_TOTAL_OPTS": "autotune.n_total_opts",
    "ZYX_AUTOTUNE_LIBRARY_KERNELS": "autotune.library_kernels",
    "ZYX_CACHE": "cache.enabled",
    "ZYX_CACHE_DIR": "cache.directory",
    "ZYX_CACHE_MAX_BYTES": "cache.max_bytes",
    "ZYX_CACHE_CALIBRATION": "cache.calibration",
    "ZYX_COLLECTIVE_TIMEOUT_S": "collectives.timeout_s",
    "ZYX_PROGRESS": "progress",
    "ZYX_NUM_THREADS": "threads",
    "ZYX_DETERMINISTIC": "deterministic",
}
VARIABLE_OF: Final = {key: variable for variable, key in KEY_OF.items()}

#: Variables that start like ours and are read by others: the tests, the test kit, and the server of zyx-llm.
FOREIGN: Final = frozenset({"ZYX_REQUIRE_DEVICES", "ZYX_LLM_TOKEN"})


def of_section(backend: str, field: str) -> str:
    """Return the variable of a backend's field, such as ``ZYX_CUDA_DEVICE_IDS``."""
    return f"{PREFIX}{backend}_{field}".upper().replace("-", "_")
