"""What a user types for a cache root, and how a place in an object store behaves."""

import os
import pickle
from pathlib import Path

import pytest

from probekit.errors import OptionError, StorageError
from probekit.store.objects import bucket
from probekit.store.objects.object_path import ObjectPath, root_of


@pytest.mark.parametrize(
    ("typed", "root"),
    [
        ("cache", Path("cache")),
        (Path("/a/b"), Path("/a/b")),
        ("file:///a/b%20c", Path("/a/b c")),
        ("FILE:///a", Path("/a")),
        (Path("file:///"), Path("/")),
    ],
)
def test_a_folder(typed, root):
    assert root_of(typed) == root and type(root_of(typed)) is type(root)


@pytest.mark.parametrize("typed", ["s3://b/x/y", Path("s3://b/x/y"), "s3://b/x/y/", "S3://b/x/y"])
def test_a_url(typed):
    root = root_of(typed)
    assert isinstance(root, ObjectPath) and str(root) == "s3://b/x/y"
    assert root_of(root) is root


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("ftp://host/x", "ftp://host/x: a cache is a folder, or a URL that begins with s3://"),
        ("https://host/x", "a cache is a folder"),
        ("s3://", "s3:// names no bucket: write s3://BUCKET/PREFIX"),
        (Path("s3://"), "s3:// names no bucket"),
        ("memory:", "memory:// names no bucket"),
        ("s3://b/../c", "no . or .. in them"),
        ("", "the path is empty"),
        ("s3:b/p", "s3:b/p is no URL: write s3://b/p"),
        ("file://host/x", "file://host/x names a machine: write file:///FOLDER"),
    ],
)
def test_a_url_of_no_object_store(typed, says):
    with pytest.raises(OptionError, match=says):
        root_of(typed)


@pytest.mark.parametrize(
    ("url", "endpoint", "says"),
    [
        ("s3://b uck/x", "", "s3://b uck is no name of a bucket"),
        ("s3://never/x", "127.0.0.1:9000", "AWS_ENDPOINT_URL=127.0.0.1:9000 is no URL"),
        ("az://never/x", "", "set AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_what_names_no_server(url, endpoint, says, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises((OptionError, StorageError), match=says):
        root_of(url).exists()


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setattr(bucket, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"needs the package obstore.*\[s3\]"):
        root_of("s3://b/x")
    assert root_of("x") == Path("x")


def test_it_is_no_file(memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (open, os.stat, os.path.abspath, os.listdir, ObjectPath.touch, ObjectPath.rmdir):
        with pytest.raises(TypeError, match="is in an object store, and no file"):
            use(memory)
    with pytest.raises(TypeError, match="cannot be opened to 'wb'"):
        memory.open("wb")
    memory.mkdir(parents=True)
    assert not list(tmp_path.iterdir())


def test_its_parts_are_those_of_a_path(memory):
    path = memory / "model" / "task.x"
    assert (path.name, path.suffix, path.parent.name) == ("task.x", ".x", "model")
    assert str(path.with_name("y")) == f"{memory}/model/y"
    assert path.relative_to(memory).as_posix() == "model/task.x"
    assert pickle.loads(pickle.dumps(path)) == path and path.resolve() is path
    assert {path: 1}[memory / "model/task.x"] == 1


def test_objects_and_prefixes(memory):
    for name in ("a/x.json", "a/y.txt", "a.b/z", "c"):
        (memory / name).write_bytes(name.encode())
    assert (memory / "a").is_dir() and not (memory / "a").is_file()
    assert (memory / "c").is_file() and not (memory / "c").is_dir()
    assert not (memory / "a/x").exists() and not (memory / "nothing").exists()
    assert [path.name for path in memory.iterdir()] == ["a", "a.b", "c"]
    assert [str(path) for path in memory.glob("*/*.json")] == [f"{memory}/a/x.json"]
    assert list(memory.glob("a/nothing")) == list((memory / "nothing").iterdir()) == []
    assert (memory / "a/y.txt").read_text() == "a/y.txt"
    assert (memory / "a/y.txt").stat().st_size == 7
    assert (memory / "a").below() == {"x.json": 8, "y.txt": 7}
    (memory / "a").remove()
    (memory / "c").unlink()
    (memory / "c").unlink()
    assert [path.name for path in memory.iterdir()] == ["a.b"]
    for read in (ObjectPath.read_bytes, ObjectPath.stat):
        with pytest.raises(FileNotFoundError, match="there is no object memory://"):
            read(memory / "c")
