"""Turn Spark's errors into errors of dynq: the place and one sentence, without a Java traceback or secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from dynq_cli.errors import DynqError, RejectedError, UsageError

_NOT_THERE = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
_NO_FORMAT = ("DATA_SOURCE_NOT_FOUND", "FAILED_CLASS_NOT_FOUND")
_UNREADABLE = ("UNABLE_TO_INFER_SCHEMA", "CANNOT_READ_FILE_FOOTER", "FAILED_READ_FILE", "CANNOT_MERGE_SCHEMAS")
_CAUSE = re.compile(r"(?:Caused by: |^)(?:[\w.$]+(?:Exception|Error)): (.+)")
# Secrets in the parameters of a URL.
SECRET = re.compile(r"(?i)(password|pwd|secret|token)\s*=\s*([^&;\s]+)")
USER_INFO = re.compile(r"//[^/@\s]*@")
_HIDDEN = "…"
_NO_DATABASE = "FAILED_JDBC"
_NO_DRIVER = ("No suitable driver", "ClassNotFoundException")
_SHOWN = 400


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Turn errors of Spark in the block into errors that name a place."""
    try:
        yield
    except PySparkException as error:
        condition, said = error.getCondition() or "", str(error)
        if condition.startswith(_NO_DATABASE):
            raise _database_failed(place, _root(error)) from error
        raise _translated(place, condition, said) from error
    except Py4JJavaError as error:
        said = str(error.java_exception.toString())
        if "java.sql." in said or any(sign in said for sign in _NO_DRIVER):
            raise _database_failed(place, said) from error
        raise _translated(place, "", said) from error
    except Py4JError as error:
        raise DynqError(f"{place}: Spark was lost: {first_line(str(error))}") from error


def _root(error: BaseException) -> str:
    """Return the message of the root cause of an error in Java."""
    cause = getattr(error, "_cause", None)
    return _root(cause) if isinstance(cause, BaseException) else str(error)


def _database_failed(place: str, said: str) -> DynqError:
    if any(sign in said for sign in _NO_DRIVER):
        return UsageError(
            f"{place}: Spark has no driver for this database\n  hint: give it one with --conf spark.jars=DRIVER.jar"
        )
    return DynqError(f"{place}: the database refused: {first_line(said)}")


def _translated(place: str, condition: str, said: str) -> DynqError:
    if condition.startswith(_NOT_THERE):
        return UsageError(f"there is no {place}, neither a path nor a table")
    if condition.startswith(_NO_FORMAT):
        hint = "give Spark the package with --conf spark.jars.packages=..."
        return UsageError(f"{place}: {first_line(said)}\n  hint: {hint}")
    if condition.startswith(_UNREADABLE):
        return RejectedError(f"{place} cannot be read: {first_line(said)}")
    return DynqError(f"{place}: Spark could not do it: {first_line(said)}")


def first_line(said: str) -> str:
    """Return the sentence in an error message of Spark: without class names, error states and following lines.

    >>> first_line("[A.B] It is not there. SQLSTATE: 42K03\\n== SQL ==\\nx")
    'It is not there.'
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it did not say why"]
    cause = _CAUSE.search(lines[0])
    text = cause[1] if cause else lines[0]
    return hidden(re.sub(r"^\[[A-Z_.]+\] | ?SQLSTATE: \w+.*$", "", text)[:_SHOWN])


def hidden(text: str, *secrets: str) -> str:
    """Remove passwords from a message.

    >>> hidden("jdbc:postgresql://me:abc@db/shop?user=me&password=xyz is gone: abc", "abc")
    'jdbc:postgresql://…@db/shop?user=me&password=… is gone: …'
    """
    for secret in secrets:
        text = text.replace(secret, _HIDDEN) if secret else text
    return USER_INFO.sub(f"//{_HIDDEN}@", SECRET.sub(rf"\1={_HIDDEN}", text))
