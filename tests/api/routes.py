"""Every route with what it needs and what it answers to a stranger's ids.

The tests of keys, isolation and hostile input walk this table, and fail when it and the OpenAPI
document name different routes.
"""

from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from tests.conftest import ROOT_KEY

Scope = Literal["ingest", "recall", "facts", "privacy", "admin"]

_MESSAGE = {"role": "user", "content": "I live in Lisbon.", "id": "m1", "name": "someone"}
_FACT = {
    "text": "Prefers window seats.",
    "kind": "preference",
    "valid_from": "2025-01-01T00:00:00Z",
    "expires_at": "2099-01-01T00:00:00Z",
    "pinned": False,
    "metadata": {"team": "data"},
}
_CHANGE = {key: value for key, value in _FACT.items() if key != "valid_from"}
_POLICY = {
    "session_silence": "30m",
    "session_cap": "8h",
    "max_facts_per_user": 500,
    "max_facts_per_day": 50,
    "turn_retention": "0s",
    "superseded_retention": None,
    "goal_expiry": "90d",
    "unrecalled_expiry": "60d",
    "forgotten_retention": "30d",
    "forgetting": "dry_run",
    "blocked_categories": [],
    "default_memory": "on",
    "extraction_instructions": None,
    "model": None,
    "prompt_version": None,
    "monthly_token_budget": None,
    "audit_retention": "365d",
    "recall_log_retention": "30d",
}


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    scope: Scope | None = None
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    query: tuple[str, ...] = ()
    foreign: int = 404
    """The answer to another tenant: 404, unless the id then names that tenant's own new user."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def fill(self, **ids: str) -> str:
        """Put ids into the path, dots encoded too, for a client would take `..` as a step up."""
        quoted = {name: quote(i, safe="").replace(".", "%2E") for name, i in ids.items()}
        return self.path.format(**{"recall_id": _RECALL, "tenant": _RECALL, "key": _KEY, **quoted})


_ROOT = {"Authorization": f"Bearer {ROOT_KEY}"}
_RECALL = "3f0c8e56-58a4-4a53-8a5c-0d6d7c0f8a11"
_KEY = "0" * 33
_USER = "/v1/users/{user}"
_SESSION = _USER + "/sessions/{session}"
_ONE_FACT = _USER + "/facts/{fact}"
_ORGANIZATION = "/v1/organization/facts"
_KEYS = "/v1/tenant/keys"
_PAGE = ("limit", "cursor")
_VIEW = ("status", "kind", "as_of", "known_at", "metadata.KEY", *_PAGE)

ROUTES = (
    Route("GET", "/livez", foreign=200),
    Route("GET", "/readyz", foreign=200),
    Route("GET", "/metrics", foreign=200),
    Route(
        "POST",
        f"{_SESSION}/messages",
        "ingest",
        {"messages": [_MESSAGE], "end": False, "memory": "on"},
        foreign=202,
    ),
    Route(
        "POST",
        f"{_USER}/transcripts",
        "ingest",
        {"session": "s", "messages": [_MESSAGE], "memory": "on"},
        foreign=202,
    ),
    Route("GET", f"{_USER}/sessions", "ingest", query=_PAGE, foreign=200),
    Route("GET", _SESSION, "ingest", query=("wait",)),
    Route("POST", f"{_SESSION}/end", "ingest"),
    Route("POST", f"{_SESSION}/retry", "ingest"),
    Route("DELETE", _SESSION, "privacy"),
    Route(
        "GET",
        f"{_USER}/memory",
        "recall",
        query=("query", "session", "token_budget", "refresh"),
        foreign=200,
    ),
    Route(
        "POST",
        f"{_USER}/memory",
        "recall",
        {"query": "where do I live", "session": "s", "token_budget": 600, "refresh": False},
        foreign=200,
    ),
    Route(
        "POST",
        f"{_USER}/search",
        "recall",
        {
            "query": "where do I live",
            "limit": 10,
            "kinds": ["profile"],
            "as_of": "2025-01-01T00:00:00Z",
            "include_superseded": False,
            "metadata": {"team": "data"},
        },
        foreign=200,
    ),
    Route(
        "POST",
        "/v1/recalls/{recall_id}/feedback",
        "recall",
        {"relevant": [], "irrelevant": []},
    ),
    Route("GET", "/v1/recalls/sample", "admin", query=("n",), foreign=200),
    Route("GET", f"{_USER}/facts", "facts", query=_VIEW, foreign=200),
    Route("POST", f"{_USER}/facts", "facts", _FACT, foreign=201),
    Route("GET", _ONE_FACT, "facts"),
    Route("GET", f"{_ONE_FACT}/why", "facts"),
    Route("GET", f"{_ONE_FACT}/history", "facts"),
    Route(
        "PATCH",
        _ONE_FACT,
        "facts",
        _CHANGE,
        {"If-Match": '"1"'},
    ),
    Route("POST", f"{_ONE_FACT}/restore", "facts"),
    Route("DELETE", _ONE_FACT, "facts"),
    Route("GET", f"{_USER}/export", "privacy", foreign=200),
    Route("POST", f"{_USER}/merge", "privacy", {"into": "somebody else"}),
    Route(
        "POST",
        f"{_USER}/import",
        "privacy",
        {"format": "usermem-export-1", "settings": {"memory": "on"}, "facts": []},
        foreign=200,
    ),
    Route("GET", _ORGANIZATION, "facts", query=_VIEW, foreign=200),
    Route("POST", _ORGANIZATION, "admin", _FACT, foreign=201),
    Route("GET", f"{_ORGANIZATION}/{{fact}}", "facts"),
    Route("GET", f"{_ORGANIZATION}/{{fact}}/why", "facts"),
    Route("GET", f"{_ORGANIZATION}/{{fact}}/history", "facts"),
    Route("PATCH", f"{_ORGANIZATION}/{{fact}}", "admin", _CHANGE, {"If-Match": '"1"'}),
    Route("POST", f"{_ORGANIZATION}/{{fact}}/restore", "admin"),
    Route("DELETE", f"{_ORGANIZATION}/{{fact}}", "admin"),
    Route(
        "POST",
        f"{_USER}/memory-tool",
        "facts",
        {"command": "view", "path": "/memories"},
        foreign=200,
    ),
    Route("GET", f"{_USER}/settings", "privacy", foreign=200),
    Route(
        "PUT",
        f"{_USER}/settings",
        "privacy",
        {"memory": "on", "locale": "pt-PT", "timezone": "Europe/Lisbon"},
        foreign=200,
    ),
    Route("PATCH", f"{_USER}/settings", "privacy", {"memory": "on"}, foreign=200),
    Route("DELETE", _USER, "privacy", foreign=200),
    Route("POST", f"{_USER}/page-links", "privacy", {"expires_in": 900}, foreign=201),
    Route("GET", "/v1/erasures", "privacy", query=("since", *_PAGE), foreign=200),
    Route(
        "GET",
        "/v1/audit-log",
        "admin",
        query=("user", "action", "from", "to", *_PAGE),
        foreign=200,
    ),
    Route("POST", "/v1/tenants", body={"name": "acme"}, headers=_ROOT),
    Route("DELETE", "/v1/tenants/{tenant}", headers=_ROOT),
    Route("GET", "/v1/tenant/policy", "admin", foreign=200),
    Route("PUT", "/v1/tenant/policy", "admin", _POLICY, foreign=200),
    Route("PATCH", "/v1/tenant/policy", "admin", _POLICY, foreign=200),
    Route("GET", _KEYS, "admin", query=_PAGE, foreign=200),
    Route(
        "POST",
        _KEYS,
        "admin",
        {"scopes": ["recall"], "user": "alice", "expires_in": "90d"},
        foreign=201,
    ),
    Route("DELETE", f"{_KEYS}/{{key}}", "admin"),
    Route("POST", f"{_KEYS}/{{key}}/rotate", "admin", {"overlap": "24h"}),
    Route("GET", "/v1/tenant/stats", "admin", query=("from", "to"), foreign=200),
    Route("GET", "/v1/forgetting/preview", "admin", query=_PAGE, foreign=200),
    Route("GET", "/v1/forgetting/log", "admin", query=_PAGE, foreign=200),
    Route("GET", "/v1/quarantine", "admin", query=_PAGE, foreign=200),
    Route(
        "POST",
        "/v1/quarantine",
        "admin",
        {
            "session": "s",
            "source": "api",
            "extractor": "rules",
            "from": "2025-01-01T00:00:00Z",
            "to": "2025-01-02T00:00:00Z",
            "user": "alice",
        },
        foreign=200,
    ),
    Route("POST", "/v1/quarantine/{fact}/release", "admin", headers={"If-Match": '"1"'}),
    Route("POST", "/v1/quarantine/{fact}/reject", "admin"),
    Route("POST", "/v1/audits/poisoning", "admin", foreign=200),
)

KEYED = tuple(route for route in ROUTES if route.scope)
OF_USERS = tuple(route for route in KEYED if "{user}" in route.path)
TENANT_WIDE = tuple(route for route in KEYED if "{user}" not in route.path)
