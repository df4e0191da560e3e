"""Roots in object stores: in memory, and over HTTP."""

from itertools import count

import pytest

pytest.importorskip("obstore")

from probekit.store.objects.object_path import root_of

_names = count()


@pytest.fixture
def memory():
    """A root of its own in the memory of this process."""
    return root_of(f"memory://test{next(_names)}/cache")


@pytest.fixture(scope="session")
def server():
    pytest.importorskip("moto")
    from tests.s3_server import S3Server

    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3(server, monkeypatch):
    """A root in a new bucket, and the environment in which it is found."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    yield root_of(f"s3://{server.bucket()}/cache")
    server.faults, server.refuses = None, False
