"""Errors that have a meaning for the caller. The edge turns each into one problem+json answer.

    UsermemError
    ├── Unauthorized  401   no key, or one that is not valid (any more)
    ├── Forbidden     403   the key lacks the scope
    ├── NotFound      404   it is not there, or it is somebody else's: the same answer
    ├── TooSlow       408   the body did not arrive in time
    ├── Conflict      409   the state forbids it
    ├── Gone          410   it was erased
    ├── Stale         412   the revision named is not the current one
    ├── Invalid       422   the content is wrong
    ├── TooManyRequests 429 the key's share of this minute is used up
    └── Unavailable   503   try again after `retry_after` seconds

`detail` is a sentence for the caller and never holds anything a user said.
"""

from typing import ClassVar


class UsermemError(Exception):
    """Base: `status` is the HTTP status, `code` a stable word for programs."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    code: str = "internal"

    def __init__(
        self, detail: str, *, code: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.retry_after = retry_after


class Unauthorized(UsermemError):  # noqa: N818 - named as HTTP names it, like the rest of the tree
    """The key is missing, malformed, unknown, revoked or expired."""

    status, title, code = 401, "Unauthorized", "unauthorized"


class Forbidden(UsermemError):  # noqa: N818 - as above
    """The key is valid but lacks the scope."""

    status, title, code = 403, "Forbidden", "forbidden"


class NotFound(UsermemError):  # noqa: N818 - as above
    """There is nothing of that id for this tenant and user."""

    status, title, code = 404, "Not found", "not_found"


class TooSlow(UsermemError):  # noqa: N818 - as above
    """The body did not arrive in time."""

    status, title, code = 408, "Request timeout", "too_slow"


class Conflict(UsermemError):  # noqa: N818 - as above
    """The object's state forbids the request."""

    status, title, code = 409, "Conflict", "conflict"


class Gone(UsermemError):  # noqa: N818 - as above
    """What the request belongs to was erased."""

    status, title, code = 410, "Gone", "gone"


class Stale(UsermemError):  # noqa: N818 - as above
    """The revision in `If-Match` is not the current one."""

    status, title, code = 412, "Precondition failed", "stale"


class Invalid(UsermemError):  # noqa: N818 - as above
    """The content of the request is wrong."""

    status, title, code = 422, "Unprocessable content", "invalid"


class TooManyRequests(UsermemError):  # noqa: N818 - as above
    """The key, or the address, has asked too often; try again after `retry_after` seconds."""

    status, title, code = 429, "Too many requests", "too_many_requests"


class Unavailable(UsermemError):  # noqa: N818 - as above
    """The service can't answer now."""

    status, title, code = 503, "Service unavailable", "unavailable"
