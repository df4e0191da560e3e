"""Chunks of an object store in memory: they come when they are asked for, and go when others do.

A chunk that somebody reads is never taken away.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock

Key = tuple[int, int, int]
"""Which array of an entry, row chunk, position of the layer."""

REQUESTS = 16
"""Chunks that are fetched, or sent, at a time: some 4 MiB each."""

_AHEAD = 0.5
"""Of the window, what may be fetched before it is wanted."""


@dataclass(eq=False)
class _Held:
    """A chunk that is there, or on its way."""

    nbytes: int
    coming: "Future[None]"
    there: bool = False
    readers: int = 0


class ChunkWindow:
    """The chunks of some arrays that are there, at most so many bytes unless more are read at once.

    Of several threads at a time.

    Attributes:
        most_bytes: what chunks may take that nobody reads.
    """

    def __init__(
        self,
        most_bytes: int,
        most_chunks: int,
        fetch: Callable[[Key], None],
        drop: Callable[[Key], None],
    ) -> None:
        """Begin with none.

        Args:
            most_bytes: what chunks may take.
            most_chunks: how many may be there.
            fetch: brings a chunk to its place, on a thread of `requests`.
            drop: takes it away again.
        """
        self.most_bytes, self._most_chunks = most_bytes, most_chunks
        self._fetch, self._drop = fetch, drop
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self._nbytes, self._lock = 0, Lock()

    @contextmanager
    def holding(self, keys: Sequence[Key], nbytes: int) -> Iterator[None]:
        """Bring chunks, and keep them there inside the block.

        Args:
            keys: the chunks, each once.
            nbytes: of each.

        Raises:
            ProbekitError: one cannot be brought, as ``fetch`` says.
        """
        with self._lock:
            wanted = [self._ask(key, nbytes) for key in keys]
            for one in wanted:
                one.readers += 1
        try:
            for one in wanted:
                if not one.there:
                    one.coming.result()
                    one.there = True
            yield
        finally:
            with self._lock:
                for one in wanted:
                    one.readers -= 1
                self._trim()

    def ask(self, keys: Sequence[Key], nbytes: int) -> None:
        """Begin to bring chunks, as far as there is room for them, and do not wait."""
        with self._lock:
            for key in keys[: max(int(_AHEAD * self.most_bytes) // nbytes, 1)]:
                self._ask(key, nbytes)
            self._trim()

    def _ask(self, key: Key, nbytes: int) -> _Held:
        found = self._held.get(key)
        if found is not None and not found.there and _has_failed(found.coming):
            self._forget(key)
            found = None
        if found is None:
            found = self._held[key] = _Held(nbytes, requests().submit(self._fetch, key))
            self._nbytes += nbytes
        self._held.move_to_end(key)
        return found

    def _trim(self) -> None:
        """Take away what was not read for longest, where there is too much."""
        if self._nbytes <= self.most_bytes and len(self._held) <= self._most_chunks:
            return
        for key in list(self._held):
            if self._nbytes <= self.most_bytes and len(self._held) <= self._most_chunks:
                return
            one = self._held[key]
            if not one.readers and one.coming.done():
                self._forget(key)

    def _forget(self, key: Key) -> None:
        one = self._held.pop(key)
        self._nbytes -= one.nbytes
        if one.coming.exception() is None:
            self._drop(key)


def _has_failed(coming: "Future[None]") -> bool:
    return coming.done() and coming.exception() is not None


def requests() -> ThreadPoolExecutor:
    """Return the threads that ask object stores for chunks, those of this process."""
    return _requests(os.getpid())


@cache
def _requests(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(REQUESTS, thread_name_prefix="probekit-fetch")
