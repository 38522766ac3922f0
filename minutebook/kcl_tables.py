"""The names of KCL's tables in DynamoDB. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LEASES: Final = "tableName"
COORDINATOR: Final = "coordinatorStateTableName"
REPORTS: Final = "workerMetricsTableName"
KCL_TABLES: Final = MappingProxyType({LEASES: "", COORDINATOR: "-CoordinatorState", REPORTS: "-WorkerMetricStats"})
"""KCL's properties that name its tables, and what follows the application's name where a property is not set."""


def kcl_tables(application: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the tables of an application by the property that names each, the lease table first.

    `values` are those of its properties file.
    """
    return {key: values.get(key) or f"{application}{end}" for key, end in KCL_TABLES.items()}
