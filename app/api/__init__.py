"""The REST API: one file per resource."""

from fastapi import APIRouter

from app.api import (
    audit_log,
    audits,
    edit,
    erasures,
    facts,
    forgetting,
    health,
    keys,
    memory,
    portability,
    quarantine,
    search,
    sessions,
    stats,
    tenant,
    tenants,
    users,
)

router = APIRouter()
# Routes are tried in turn: the one that every request of every user takes comes first.
router.include_router(memory.router)  # /v1/users/{user}/memory
router.include_router(sessions.router)  # /v1/users/{user}/sessions, /v1/users/{user}/transcripts
router.include_router(search.router)  # /v1/users/{user}/search, /v1/recalls
router.include_router(facts.router)  # /v1/users/{user}/facts, /v1/organization/facts
router.include_router(edit.router)  # the same: correct, undo, delete
router.include_router(users.router)  # /v1/users/{user}, …/settings, …/page-links
router.include_router(portability.router)  # /v1/users/{user}/export, /v1/users/{user}/merge
router.include_router(portability.uploads)  # /v1/users/{user}/import
router.include_router(erasures.router)  # /v1/erasures
router.include_router(tenant.router)  # /v1/tenant/policy
router.include_router(keys.router)  # /v1/tenant/keys
router.include_router(stats.router)  # /v1/tenant/stats
router.include_router(forgetting.router)  # /v1/forgetting/preview, /v1/forgetting/log
router.include_router(quarantine.router)  # /v1/quarantine
router.include_router(audits.router)  # /v1/audits
router.include_router(audit_log.router)  # /v1/audit-log
router.include_router(tenants.router)  # /v1/tenants
router.include_router(health.router)  # /livez, /readyz
