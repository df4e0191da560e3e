"""What every part of the store's contract needs of a backend."""

import pytest

from probekit.store.backends import BACKENDS
from probekit.store.builder import EntryBuilder
from probekit.store.layout import FEATURE_DTYPES
from tests.planted import built_once
from tests.store import synthetic


class Backed:
    """Subclasses name the backend and say how to damage what it wrote."""

    backend: str

    lone_chunks = True
    """Whether one chunk can be missing while the others of its file or folder are there."""

    def store(self, folder):
        return folder / BACKENDS[self.backend].filename

    def read_independently(self, entry, name):
        """Read a plain array with the format's own library."""
        raise NotImplementedError

    def described(self, entry, name):
        """Names of the dimensions of a plain array, and its attributes, by that library."""
        raise NotImplementedError

    def remove_chunk(self, entry):
        """Make chunk (1, 2) of ``words`` disappear; not asked for without `lone_chunks`."""
        raise NotImplementedError

    def shorten_chunk(self, entry):
        """Cut the file that holds the last chunk."""
        raise NotImplementedError

    @pytest.fixture(scope="class", params=FEATURE_DTYPES)
    @classmethod
    def entry(cls, request, tmp_path_factory):
        """An entry of each dtype, not to be damaged."""
        path = tmp_path_factory.mktemp(request.param) / "train-00000000"
        return synthetic.build(path, cls.backend, request.param)

    @pytest.fixture
    def fresh(self, tmp_path):
        """A float16 entry that a test may damage."""
        return self.build(tmp_path / "train-00000000", self.backend, "float16")

    build = staticmethod(built_once(synthetic.build))

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "train-00000000"

    @pytest.fixture
    def same(self, fresh):
        """Assert that an entry is the same, byte for byte, as one that was built at once."""
        expected = synthetic.folder_bytes(fresh.path)

        def check(entry, of=None):
            assert synthetic.folder_bytes(entry.path) == expected, of

        return check

    def finish(self, builder):
        return synthetic.finish(builder, self.backend, "float16")

    def open(self, path, dtype="float16", **options):
        plan = options.pop("plan", synthetic.plan(self.backend, dtype))
        return EntryBuilder(path, plan=plan, **options)
