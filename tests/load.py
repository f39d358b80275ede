"""Mixed load on running services, with a record of all that they acknowledged."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field

import httpx2

CITIES = ["Lisbon", "Porto", "Linz", "Graz", "Vienna", "Berlin", "Madrid", "Paris"]


@dataclass
class Load:
    """Some callers who post conversations and recall, each in turn at one of the services."""

    urls: list[str]
    key: str
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    """(user, session) of every 202."""
    answers: int = 0
    failures: list[tuple[float, str]] = field(default_factory=list)
    """(when, what) of every answer that is no success."""
    _stopped: bool = False

    async def run(self, callers: int, per_second: float) -> None:
        """Go on until `stop`; each caller sends no faster than the rate allows."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=20) as http:
            each = (self._caller(http, n, callers / per_second) for n in range(callers))
            await asyncio.gather(*each)

    def stop(self) -> None:
        self._stopped = True

    async def _caller(self, http: httpx2.AsyncClient, n: int, pause: float) -> None:
        for turn in itertools.count():
            if self._stopped:
                return
            started = time.monotonic()
            url = self.urls[(n + turn) % len(self.urls)]
            user = f"user-{n}-{turn // 6 % 5}"
            if turn % 2:
                await self._send(http, "GET", f"{url}/v1/users/{user}/memory?query=seat")
            else:
                await self._post(http, url, user, f"s{turn}", CITIES[turn // 2 % len(CITIES)])
            await asyncio.sleep(max(0.0, started + pause - time.monotonic()))

    async def _post(
        self, http: httpx2.AsyncClient, url: str, user: str, session: str, city: str
    ) -> None:
        texts = [f"I live in {city}.", "I prefer window seats.", "We use Postgres."]
        body = {"session": session, "messages": [{"role": "user", "content": t} for t in texts]}
        if await self._send(http, "POST", f"{url}/v1/users/{user}/transcripts", body):
            self.acknowledged.add((user, session))

    async def _send(
        self, http: httpx2.AsyncClient, method: str, url: str, body: object = None
    ) -> bool:
        self.answers += 1
        try:
            answer = await http.request(method, url, json=body)
        except httpx2.TransportError as error:
            self.failures.append((time.monotonic(), type(error).__name__))
            return False
        if not answer.is_success:
            retry = answer.headers.get("retry-after")
            self.failures.append((time.monotonic(), f"{answer.status_code} retry {retry}"))
        return answer.is_success
