"""A file as an answer: streamed piece by piece, and closed whether it was taken or not."""

from collections.abc import Iterator, Mapping
from typing import IO, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

_PIECE: Final = 64 * 1024


class Download(StreamingResponse):
    """A file that is closed when it is sent, or when nobody wants it any more."""

    def __init__(
        self, file: IO[bytes], media_type: str, name: str, headers: Mapping[str, str]
    ) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        own = {
            "Content-Length": str(size),
            "Content-Disposition": f'attachment; filename="{name}"',
        }
        super().__init__(_pieces(file), headers={**headers, **own}, media_type=media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
