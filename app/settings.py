"""Every setting, its default and its unit. Read from `USERMEM_*` variables, once, at the roots."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.durations import Duration


class Settings(BaseSettings):
    """The service's configuration. `Field.description` is the README's text for each setting."""

    # An empty variable counts as unset: compose files pass on what nobody has set.
    model_config = SettingsConfigDict(
        env_prefix="USERMEM_", env_ignore_empty=True, extra="ignore", populate_by_name=True
    )

    database_url: str | None = Field(
        None, description="Postgres URL of the service's login. Unset: an embedded Postgres."
    )
    migrate_database_url: str | None = Field(
        None,
        description="Postgres URL of the owner, for migrations and tenant administration. "
        "Unset: the same as the service's; each transaction then drops to the restricted role.",
    )
    data_dir: Path = Field(
        Path("~/.local/share/usermem"),
        description="Where the embedded Postgres and its generated signing key live.",
    )
    extractor: Literal["auto", "claude", "rules"] = Field(
        "auto", description="Who reads conversations; `auto` is Claude when a key is present."
    )
    anthropic_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("USERMEM_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
        description="Key for Claude; `ANTHROPIC_API_KEY` serves too.",
    )
    anthropic_base_url: str | None = Field(None, description="Another Messages API endpoint.")
    model: str = Field("claude-haiku-5-5", description="The model that extracts and judges.")
    model_timeout: Duration = Field(
        timedelta(seconds=120), description="Longest time for one model call, retries included."
    )
    embedder: Literal["local", "openai", "voyage"] = Field(
        "local",
        description="`local` needs no key; `openai` is any compatible `/embeddings` endpoint.",
    )
    embeddings_url: str | None = Field(
        None, description="Base URL of the embeddings API, without `/embeddings`."
    )
    embeddings_model: str | None = Field(None, description="Model name for the embeddings API.")
    embeddings_api_key: SecretStr | None = Field(None, description="Key for the embeddings API.")
    embeddings_floor: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="Cosine below which the vector arm of recall ignores a fact. "
        "Unset: the embedder's own.",
    )
    previous_embedder: Literal["local", "openai", "voyage"] | None = Field(
        None,
        description="While the model changes: what made the vectors of the users that "
        "`usermem reembed` has not come to yet. Unset: there is none.",
    )
    previous_embeddings_url: str | None = Field(
        None, description="As `USERMEM_EMBEDDINGS_URL`, of the previous embedder."
    )
    previous_embeddings_model: str | None = Field(
        None, description="As `USERMEM_EMBEDDINGS_MODEL`, of the previous embedder."
    )
    previous_embeddings_api_key: SecretStr | None = Field(
        None, description="As `USERMEM_EMBEDDINGS_API_KEY`, of the previous embedder."
    )
    previous_embeddings_floor: float | None = Field(
        None, ge=-1, le=1, description="As `USERMEM_EMBEDDINGS_FLOOR`, of the previous embedder."
    )
    signing_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="Secret of at least 32 characters behind cursors and keyed hashes. "
        "Embedded: generated into the data directory. With a database URL: required.",
    )
    root_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="Secret of at least 32 characters that creates and erases tenants over HTTP. "
        "Unset: nobody does.",
    )
    public_url: str | None = Field(
        None,
        description="Where this service is reached, like `https://memory.example.com`. Links to a "
        "user's page begin with it, and besides loopback MCP answers to this name only. "
        "Unset: the address it listens on.",
    )
    erasure_ledger: Path | None = Field(
        None,
        description="File that remembers erasures apart from the database. Embedded: "
        "beside the data directory, under its name and `.erasures.ndjson`. With a database URL and "
        "without a ledger, a restored backup could bring the erased back unnoticed.",
    )
    backup_retention: Duration = Field(
        timedelta(days=30), description="How long backups of the database are kept, for receipts."
    )
    rate_limit_recall: int = Field(
        600, ge=0, description="Requests of scope `recall` a minute with one key; 0: any number."
    )
    rate_limit: int = Field(
        300,
        ge=0,
        description="Other requests a minute with one key, and as many of scope `privacy` apart "
        "from them; 0: any number.",
    )
    rate_limit_user: int = Field(
        0,
        ge=0,
        description="Requests a minute about one user with one key, in each of the two limits "
        "above: so no user takes what is the others' too. 0: as many as the key.",
    )
    rate_limit_wrong_keys: int = Field(
        600,
        ge=0,
        description="Wrong keys a minute from one address; then keys that are not known to the "
        "process are not looked up. 0: any number.",
    )
    replicas: int = Field(
        1, ge=1, description="API processes, each of which allows its share of the limits above."
    )
    metrics_token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Secret of at least 16 characters that opens `/metrics` from elsewhere than "
        "loopback.",
    )
    worker_metrics: str | None = Field(
        None,
        pattern=r"^[^:]+:\d{1,5}$",
        description="Address like `127.0.0.1:9101` where `usermem worker` shows its own numbers, "
        "which are nobody's secret. Unset: nowhere.",
    )
    pool_size: int = Field(
        10, ge=2, le=200, description="Database connections of one process, per pool."
    )
    pool_timeout: Duration = Field(
        timedelta(seconds=2), description="Longest wait for a connection; then 503."
    )
    prepared_statements: bool = Field(True, description="Off behind PgBouncer in transaction mode.")
    worker_concurrency: int = Field(
        4, ge=1, le=100, description="Sessions that one worker extracts at the same time."
    )
    recall_deadline: Duration = Field(
        timedelta(seconds=1), description="After this long recall answers without embeddings."
    )
    recall_cache: int = Field(
        64,
        ge=0,
        le=65536,
        description="MiB of facts that one process keeps ready for recall; 1 MiB holds about 650.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is logged; never anything a user said."
    )
