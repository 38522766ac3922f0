"""The names of KCL's tables, as KCL itself gives them."""

from minutebook.kcl_tables import kcl_tables


def test_tables_have_the_names_that_kcl_gives_them() -> None:
    """Of an application whose file names none of them."""
    assert [*kcl_tables("flights", {}).items()] == [
        ("tableName", "flights"),
        ("coordinatorStateTableName", "flights-CoordinatorState"),
        ("workerMetricsTableName", "flights-WorkerMetricStats"),
    ]


def test_a_property_names_a_table_and_no_other_one() -> None:
    """The table of reports has the application's name before its own, also where the coordinator's is another."""
    named = kcl_tables("flights", {"coordinatorStateTableName": "mine", "streamName": "orders"})
    assert [*named.values()] == ["flights", "mine", "flights-WorkerMetricStats"]
