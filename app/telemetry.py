"""Structured logs: ids of our own and counts, never a word that a user said.

Records of other libraries pass through the same renderer with their message only; their tracebacks
keep file, line and exception type, since exception texts may quote what a user wrote.
"""

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

import structlog
from pydantic_core import to_json

_requests: Final = logging.getLogger("app.requests")

# What asyncio reports of a task or callback that failed shows its exception, and so its words.
_PLAIN = re.compile(r"[A-Za-z' ]*")

_Exc = tuple[type[BaseException], BaseException, TracebackType | None]


def _where(info: _Exc) -> list[str]:
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(info[2])
    ]


def _without_texts(
    _logger: object, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replace an exception by its type and where it was raised."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    if isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    if isinstance(info, tuple) and info[0] is not None:
        event["error"] = info[0].__qualname__
        event["where"] = _where(info)[-8:]
    if event.get("logger") == "asyncio":
        event["event"] = _first_words(str(event["event"]))
    return event


def _first_words(message: str) -> str:
    found = _PLAIN.match(message)
    return found[0].strip() if found else ""


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Renders every record but the requests' own, which come as they are to be written."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        return record.getMessage() if record.name == _requests.name else super().format(record)


def log_request(**fields: object) -> None:
    """Log that a request was served, as `logger("app.requests").info` would in five times the time.

    Every request pays for its line, and a frozen recall costs little more than a line.
    """
    if _requests.isEnabledFor(logging.INFO):
        line = {
            **fields,
            "event": "request",
            "level": "info",
            "logger": _requests.name,
            "timestamp": datetime.now(UTC),
        }
        _requests.info(to_json(line).decode())


def configure(level: str = "info") -> None:
    """Send structlog's and the standard library's records to stderr, one JSON object a line."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_texts,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Formatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    # A record that can't be written would be shown with all it was given.
    logging.raiseExceptions = False
    # What no line shows needn't be found out for each of them.
    logging._srcfile = None  # noqa: SLF001 - as its own documentation says
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Their records can name what they were given: connection texts, requests, job arguments.
    for noisy in (
        "sqlalchemy",
        "psycopg",
        "httpx2",
        "httpcore2",
        "anthropic",
        "procrastinate",
        "alembic",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # Its warnings repeat headers and names that a caller chose.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    for noisy in ("uvicorn.access", "uvicorn.error", "uvicorn"):
        logging.getLogger(noisy).handlers[:] = []
        logging.getLogger(noisy).propagate = True
    logging.getLogger("uvicorn.access").disabled = True


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Give a logger whose events are stable words and whose fields are ids and counts."""
    log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return log
