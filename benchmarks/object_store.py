"""Claim 29: an epoch read from an object store, through a mirror and without one.

minilm-l6 on CoNLL-2003 dev, copied to an S3 server of this machine (moto's, one Python process):
every row once, in the order of training, in large runs. Through a mirror that holds the entry, in a
process that has read it before, against the entry in a folder, twenty epochs at a time; and
straight from the server, each chunk fetched anew, against what the server sends to a bare client
that asks for the same chunks with as many requests at a time.

    python benchmarks/object_store.py --models MODELS --data DATA
"""

import argparse
import os
import pickle
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from measure import Claim, alternate, at_least, report, timed
from reading import read_entry, training_groups
from subjects import MINILM, data_path, model_path, parser, work_folder

from probekit import Location, extract, open_features
from probekit.extraction.maintenance import copy_entries
from probekit.features import FeatureView
from probekit.store.entry import Entry
from probekit.store.objects import chunk_window
from probekit.store.objects.mirror import Mirror
from probekit.store.objects.object_path import root_of

NUMBER, AIM = 29, 0.95
EPOCHS = 20
"""Of a local one, which takes a fiftieth of a second: too little to be timed."""

ROOT = "s3://bench/cache"

SERVER = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
WSGIRequestHandler.log = lambda *given: None
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


def main() -> None:
    """Measure and report."""
    args = parser(__doc__).parse_args()
    with work_folder(args) as folder, server():
        report(measure(args, folder), args)


@contextmanager
def server() -> Iterator[None]:
    """Have a server with an empty bucket, which the environment names."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        url = f"http://127.0.0.1:{one.stdout.readline().strip()}"
        os.environ |= {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a"}
        os.environ |= {"AWS_SECRET_ACCESS_KEY": "b"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/bench", method="PUT")).close()
        try:
            yield
        finally:
            one.terminate()


def measure(args: argparse.Namespace, folder: Path) -> list[Claim]:
    """Return both claims."""
    (entry,) = extract(
        model_path(args, MINILM),
        "conll",
        data=data_path(args, "conll2003"),
        splits=["dev"],
        device=args.device,
        cache=folder / "cache",
    )
    ((copied, _),) = copy_entries([entry.path], root_of(ROOT))
    there = Entry.open(copied.destination.path)
    views = {
        "local": view_of(folder / "cache", None),
        "mirror": view_of(ROOT, Mirror(folder / "mirror")),
    }
    layers = views["local"].array.layers
    groups = list(training_groups(views["local"]))
    assert torch.equal(*(view.array.read(slice(None), layers) for view in views.values()))

    def local(name: str) -> None:
        for _ in range(EPOCHS):
            read_entry(views[name], layers, groups)

    mapped = alternate({name: timed(lambda name=name: local(name)) for name in views}, args.rounds)
    straight = view_of(ROOT, None)
    served = {
        "straight": timed(lambda: read_entry(unread(straight), layers, groups)),
        "bare": timed(lambda: fetch(there)),
    }
    asked = alternate(served, args.rounds)
    size = views["local"].array.spec.nbytes
    seconds = {name: mapped.median(name) / EPOCHS for name in views}
    seconds |= {name: asked.median(name) for name in served}
    speeds = ", ".join(f"{name} {size / took / 1e9:.2f}" for name, took in seconds.items())
    details = f"{size / 2**20:,.0f} MiB of {len(layers)} layers; GB/s: {speeds}"
    return [
        at_least(
            NUMBER,
            "an epoch read through a mirror against an entry in a folder",
            mapped.ratio("local", "mirror"),
            AIM,
            details,
        ),
        Claim(
            number=NUMBER,
            title="an epoch straight from an S3 server against bare requests for its chunks",
            aim="stated: the server is what bounds it",
            found=f"{asked.ratio('bare', 'straight')} x",
            reached=None,
        ),
    ]


def view_of(root: str | Path, mirror: Mirror | None) -> FeatureView:
    """Return the rows of dev as a process sees them that opens the cache."""
    location = Location(cache=root, mirror=mirror)
    return open_features(MINILM, "conll", None, location, fit_on="dev").view("train")


def unread(view: FeatureView) -> FeatureView:
    """Return a view of which nothing has been fetched."""
    return replace(view, array=pickle.loads(pickle.dumps(view.array)))


def fetch(entry: Entry) -> None:
    """Ask for every chunk of the words, and leave it at that."""
    bucket = entry.folder.bucket  # type: ignore[attr-defined]
    store = entry.folder / "features.zarr" / "words"
    keys = [(store / name).key for name in store.below() if name.startswith("c.")]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(chunk_window.REQUESTS) as pool:
        for _ in pool.map(bucket.read, keys):
            pass


if __name__ == "__main__":
    main()
