"""What an extraction is of, and where its entries lie."""

import logging
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probekit.base.fingerprint import digest
from probekit.base.notices import warn_once
from probekit.errors import OptionError
from probekit.extraction.request import Request
from probekit.extraction.request_options import ExtractOptions
from probekit.store.entry import folder_of_key, list_entries
from probekit.store.layout import asked_of, entry_folder, model_slug
from probekit.tasks import Split, TextOptions, is_own

logger = logging.getLogger(__name__)

_TYPED = ("data", "splits", "revision", "label", "device", "name", "cache")
"""What a command line names, in its order; what is done once stays out."""


@dataclass(frozen=True, kw_only=True)
class ExtractTarget:
    """One model and one task as the user names them, and where their entries go.

    Attributes:
        model: Hub id, local folder or .gguf file.
        task: name of a task, or path of the user's own data.
        own: how the user's own data is read.
        data: folder with the task's published files; ``None`` reads from the Hub.
        splits: splits to extract; ``None`` is every split that there is.
        revision: Hub branch, tag or commit of the model.
        label: for the user's own data, name or index of the label column.
        device: where the model runs; ``auto`` is CUDA where there is some, else the CPU.
        name: what to call the model in the cache; None is the name of its folder or repository.
        cache: root of the feature cache.
        overwrite: compute complete entries again and replace them.
        restart: throw away what an unfinished extraction with other options has finished.
    """

    model: str
    task: str
    own: TextOptions = field(default_factory=TextOptions)
    data: Path | None = None
    splits: tuple[str, ...] | None = None
    revision: str | None = None
    label: str | None = None
    device: str = "auto"
    name: str | None = None
    cache: Path = Path("cache")
    overwrite: bool = False
    restart: bool = False

    def command(self, options: ExtractOptions) -> str:
        """Return the command line that extracts it with some options."""
        words = [self.model, self.task, *self.own.typed]
        for name in _TYPED:
            value = getattr(self, name)
            if value != getattr(ExtractTarget, name):
                option = "--split" if name == "splits" else f"--{name}"
                words += [option, ",".join(value) if isinstance(value, tuple) else str(value)]
        return shlex.join(["probekit", "extract", *words, *options.words()])

    def place(self, request: Request, split: Split) -> "Place":
        """Return where the entry of a split lies, or is to lie.

        It is the folder that holds such an entry already, whatever the model, and the user's own
        data, are called there; a task by name is looked for under its name.

        Raises:
            OptionError: ``name`` is given, and the cache has the entry under another one.
        """
        asked, task = request.to_json(split.text_fingerprint()), request.task
        name = None if self.name is None else model_slug(self.name)
        key, info = digest(asked), request.info
        seed = info.identity.random_init
        random = "" if seed is None else f"-random{seed}"
        model = name or f"{model_slug(info.name)}{random}"
        found = folder_of_key(self.cache, split.name, key, None if is_own(task) else task.slug)
        folder = found or entry_folder(self.cache, model, task.slug, split.name, key)
        called = folder.parent.parent.name
        if name and called != name:
            raise OptionError(
                f"--name {name}: what it would name is in the cache already, at {folder}. "
                f"Remove it first (probekit cache rm {key[:8]}), or call it by that name: "
                f"{called}, with --entry {key[:8]} where that has several."
            )
        return Place(request=asked, key=key, folder=folder, model=called)

    def say_namesakes(self, place: "Place") -> None:
        """Say that the cache calls another model by the name of this one, where it does."""
        for other in list_entries(self.cache):
            model = asked_of(other.path).get("model") if other.model == place.model else None
            if model not in (None, place.request["model"]):
                warn_once(
                    logger,
                    "another model is called %s in %s as well; --name NAME tells them apart.",
                    place.model,
                    self.cache,
                )
                return


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the entry of a split lies, or is to lie.

    Attributes:
        request: what its key hashes.
        key: the entry's key, 64 hex digits.
        folder: its folder in the cache.
        model: what the cache calls the model.
    """

    request: Mapping[str, Any]
    key: str
    folder: Path
    model: str
