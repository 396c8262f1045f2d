"""One Spark session for all tests of a process, and one PostgreSQL: starting them takes longer than most tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dynq_cli.spark.session import get_session
from tests.spark.postgres import Postgres, driver, missing, started

CONF = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A zone with summer time: times without a zone must not be taken for times of Java's. And little compiling: no code
    # runs long enough here for more to pay off.
    "spark.driver.extraJavaOptions": "-Duser.timezone=Europe/Berlin -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
} | ({"spark.jars": str(driver())} if driver() else {})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts a Java of its own takes longest, and leaves a core free meanwhile: it goes first, beside the rest."""
    items.sort(key=lambda item: item.get_closest_marker("own_java") is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("warehouse")
    session = get_session(CONF | {"spark.sql.warehouse.dir": str(folder)})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if missing():
        # Whoever can install it has to; on other machines the tests say why they do not run.
        (pytest.fail if os.geteuid() == 0 else pytest.skip)(missing())
    with started() as server:
        yield server
