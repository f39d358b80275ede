"""An OpenAI-compatible embeddings service of 1,024 dimensions, as the models of production have.

It gives the local model's vectors, each spread over all 1,024 numbers by one fixed rotation: every
cosine stays as it was, and there are no zeros that a search could profit from.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypedDict

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from pydantic import BaseModel

from app.embeddings import Embedder, embedder_from

WIDTH: Final = 1_024


class _State(TypedDict):
    embedder: Embedder
    rotation: NDArray[np.float64]


class Wanted(BaseModel):
    """What is asked for."""

    input: list[str]


@asynccontextmanager
async def _lifespan(_app: FastAPI) -> AsyncIterator[_State]:
    embedder = embedder_from("local")
    await embedder.warm()
    # Rows of unit length, each at right angles to all others.
    dice = np.random.default_rng(1)
    rotation = np.linalg.qr(dice.standard_normal((WIDTH, embedder.dimensions))).Q.T
    yield {"embedder": embedder, "rotation": rotation}
    await embedder.aclose()


app = FastAPI(lifespan=_lifespan)


@app.post("/v1/embeddings")
async def embeddings(request: Request, wanted: Wanted) -> JSONResponse:
    """Embed."""
    vectors = np.array(await request.state.embedder.embed(wanted.input)) @ request.state.rotation
    found = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors.tolist())]
    return JSONResponse({"data": found})
