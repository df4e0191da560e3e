"""Registries that third parties add to, through one door: a call, or an entry point.

What is added by a call lives as long as the process, and is carried to its workers; the entry
points of installed packages are read when a registry is asked, and imported when one of them is
used. Either way the contract is checked at the door, once. What a saved head or a record names is
imported only while `trusting`: these files come from anywhere.
"""

import logging
import re
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, TypeVar, cast

from probekit.base.fingerprint import PluginOrigin, import_path
from probekit.base.notices import warn_once
from probekit.errors import PluginError, UnknownNameError, reason_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

GROUP = "probekit.plugins"
"""The group of entry points; each is called KIND.NAME, as ``head.mine``."""

KINDS = ("head", "token_head", "decoder", "normalization", "fitter", "metric", "task", "tracker")
"""What can be added."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, eq=False)
class _Given:
    """What a call added in this process, or in the one that started it.

    Attributes:
        value: the plug-in.
        origin: where it is from.
        checked: whether it passed its contract in another process.
    """

    value: Any = field(repr=False)
    origin: PluginOrigin
    checked: bool = False


@dataclass(frozen=True, eq=False)
class _Offered:
    """What installed packages offer under one name; more than one of them is a mistake."""

    points: tuple[EntryPoint, ...]

    def load(self) -> _Given:
        """Import it.

        Raises:
            PluginError: several packages offer it, or it cannot be imported.
        """
        if len(self.points) > 1:
            names = " and ".join(sorted(map(_package, self.points)))
            raise PluginError(f"{names} both offer it; uninstall one of them.")
        (point,) = self.points
        try:
            value = point.load()
        except Exception as error:  # whatever a foreign package does when it is imported
            raise PluginError(
                f"the package {_package(point)} offers it as {point.value}, which cannot be "
                f"imported ({reason_of(error)}); update or uninstall that package."
            ) from error
        return _Given(value, PluginOrigin.of(value, package=_package(point)))


_Plugin = _Given | _Offered

_TRUSTING: ContextVar[bool] = ContextVar("trusting", default=False)


@contextmanager
def trusting(wanted: bool) -> Iterator[None]:
    """Import, while this lasts, what saved heads and records name, if that is wanted."""
    token = _TRUSTING.set(wanted or _TRUSTING.get())
    try:
        yield
    finally:
        _TRUSTING.reset(token)


_GIVEN: dict[str, dict[str, _Given]] = {kind: {} for kind in KINDS}
"""What calls added, by kind and name."""


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


@lru_cache(maxsize=1)
def _offers() -> Mapping[str, Mapping[str, _Offered]]:
    """Return what installed packages offer, by kind and name; nothing is imported."""
    offers: dict[str, dict[str, _Offered]] = {kind: {} for kind in KINDS}
    for point in sorted(entry_points(group=GROUP), key=lambda offer: (offer.name, _package(offer))):
        kind, _, name = point.name.partition(".")
        if kind not in offers or not _NAME.fullmatch(name):
            logger.warning(
                "the package %s has an entry point %r in the group %s, which is left out: expected "
                "KIND.NAME, where KIND is one of %s.",
                *(_package(point), point.name, GROUP, ", ".join(KINDS)),
            )
            continue
        before = offers[kind][name].points if name in offers[kind] else ()
        offers[kind][name] = _Offered((*before, point))
    return offers


def offered(kind: str) -> list[str]:
    """Return the names that installed packages offer of a kind; nothing is imported."""
    return list(_offers()[kind])


class Registry(Mapping[str, T]):
    """Plug-ins of one kind by name: probekit's own, in their order, then those that were added.

    To look up one of probekit's own costs nothing more than that; names alone import nothing.
    """

    def __init__(
        self,
        kind: str,
        builtin: Mapping[str, T],
        *,
        admit: str,
        reserved: Sequence[str] = (),
        contracts: Sequence[str] = (),
    ) -> None:
        """Read nothing yet.

        Args:
            kind: one of ``KINDS``.
            builtin: probekit's own.
            admit: the door, as ``module:function`` or ``module:value.method``. It takes a name, a
                plug-in and whether its contract is known to hold; it checks the plug-in and returns
                what the registry is to hold.
            reserved: names that mean something else.
            contracts: what a class must be one of to be imported where a file names it, each as
                ``module:class``; none is without.
        """
        assert kind in KINDS
        self.kind = kind
        self._own, self._door, self._reserved = builtin, admit, frozenset(reserved)
        self._contracts = contracts
        self._admitted: dict[_Plugin, tuple[T, PluginOrigin]] = {}
        self._refused: dict[_Plugin, str] = {}

    def __getitem__(self, name: str) -> T:
        """Return a plug-in, imported and checked.

        Raises:
            KeyError: there is none of this name.
            PluginError: it cannot be imported, or breaks its contract.
        """
        return self._own[name] if name in self._own else self._admit(name, self._added()[name])[0]

    def __contains__(self, name: object) -> bool:
        """Say whether a name is known; what is behind it may turn out to be broken."""
        return name in self._own or name in self._added()

    def __iter__(self) -> Iterator[str]:
        """Yield the names, without those that turned out to be broken."""
        yield from self._own
        yield from (name for name, plugin in self._added().items() if plugin not in self._refused)

    def __len__(self) -> int:
        """Return how many names there are."""
        return sum(1 for _ in self)

    def items(self) -> ItemsView[str, T]:
        """Return names and plug-ins; those that are broken are left out, with a warning."""
        return self._sound().items()

    def values(self) -> ValuesView[T]:
        """Return the plug-ins; those that are broken are left out, with a warning."""
        return self._sound().values()

    def _sound(self) -> dict[str, T]:
        sound = {}
        for name in list(self):
            try:
                sound[name] = self[name]
            except PluginError as error:
                warn_once(logger, "%s It is left out.", error)
        return sound

    def register(
        self, name: str, value: Any, *, version: str | None = None, made_by: Any = None
    ) -> T:
        """Add a plug-in for this process and its workers; the same one again takes its place.

        Args:
            name: as users type it.
            value: the plug-in, as the kind's ``register_...`` takes it.
            version: what tells it from an earlier one in keys of records; None is its source.
            made_by: the class or function that it is all about; None is the plug-in itself.

        Returns:
            What the registry holds.

        Raises:
            PluginError: the name is taken or is none, or the plug-in breaks its contract.
        """
        about = value if made_by is None else made_by
        self._check_name(name, import_path(about))
        before = _GIVEN[self.kind].get(name)
        same = before if before is not None and before.value is value else None
        if same is not None and same.origin == PluginOrigin.of(about, version=version):
            return self._admit(name, same)[0]
        try:
            admitted = self._enter(name, value)
            origin = PluginOrigin.of(about, version=version)
        except PluginError as error:
            raise PluginError(f"{self.kind} {name!r}: {error}") from error
        plugin = _Given(value, origin)
        self._admitted[plugin] = admitted, origin
        _GIVEN[self.kind][name] = plugin
        return admitted

    def origin(self, name: str) -> PluginOrigin | None:
        """Return where a plug-in is from; None of probekit's own."""
        return None if name in self._own else self._admit(name, self._added()[name])[1]

    def recall(self, name: str, origin: Mapping[str, str] | None) -> None:
        """Make sure that a plug-in of a record or saved head is known.

        One that is not is imported while `trusting`, and only if it is a class of the contract.

        Args:
            name: its name.
            origin: the dict form of its `PluginOrigin`; None of probekit's own.

        Raises:
            UnknownNameError: it is not known, and is not or cannot be imported.
        """
        if origin is None:
            return
        path = str(origin.get("path", ""))
        if name not in self:
            self.register(name, self._imported(name, path))
        now = self.origin(name)
        if now is None or now.code != origin.get("code", ""):
            warn_once(
                logger,
                "the %s %s (%s) has changed since the file was written, so its results may differ.",
                *(self.kind, name, path),
            )

    def _imported(self, name: str, path: str) -> Any:
        """Return what a file says that a name stands for."""
        if not _TRUSTING.get():
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}: the file names a plug-in that is not known here. "
                f"Install the package that offers it, or call probekit.register_{self.kind}; "
                f"--trust-plugins (trust_plugins=True) runs the code {path!r} that the file names."
            )
        try:
            value = _at(path)
        except Exception as error:  # whatever the module does when it is imported
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}: {path!r}, which the file names, cannot be imported "
                f"({reason_of(error)}). Put the folder of its module on PYTHONPATH, or define it "
                f"and call probekit.register_{self.kind} first."
            ) from error
        if not (isinstance(value, type) and issubclass(value, tuple(map(_at, self._contracts)))):
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}: {path!r}, which the file names, is not a "
                f"{self.kind} class. If it makes one, call probekit.register_{self.kind} first."
            )
        return value

    def _added(self) -> dict[str, _Plugin]:
        """Return what was added, by name: by calls, then by packages."""
        plugins: dict[str, _Plugin] = dict(_GIVEN[self.kind])
        for name, offered in _offers()[self.kind].items():
            if name in self._own or name in self._reserved:
                warn_once(
                    logger,
                    "the package %s offers a %s %r, a name that probekit uses itself: it is "
                    "left out. The package must rename it.",
                    *(_package(offered.points[0]), self.kind, name),
                )
            else:
                plugins.setdefault(name, offered)
        return plugins

    def _admit(self, name: str, plugin: _Plugin) -> tuple[T, PluginOrigin]:
        """Return what the registry holds of a plug-in, and its origin."""
        if plugin in self._refused:
            raise PluginError(self._refused[plugin])
        if plugin not in self._admitted:
            given: _Given | None = None
            try:
                given = plugin if isinstance(plugin, _Given) else plugin.load()
                self._admitted[plugin] = self._enter(name, given.value, given.checked), given.origin
            except PluginError as error:
                package = given.origin.package if given else ""
                whose = f" of the package {package}" if package else ""
                self._refused[plugin] = f"{self.kind} {name!r}{whose}: {error}"
                raise PluginError(self._refused[plugin]) from error
        return self._admitted[plugin]

    def _enter(self, name: str, value: Any, checked: bool = False) -> T:
        """Return what the door makes of a plug-in."""
        door: Callable[[str, Any, bool], T] = _at(self._door)
        return door(name, value, checked)

    def _check_name(self, name: str, path: str) -> None:
        """Refuse a name that is taken, or that nobody could type."""
        if not _NAME.fullmatch(name):
            raise PluginError(
                f"{self.kind} {name!r}: a name starts with a letter or digit, and contains only "
                "letters, digits, '.', '_' and '-'."
            )
        taken = f"{self.kind} {name!r} exists: it is "
        if name in self._own or name in self._reserved:
            raise PluginError(f"{taken}probekit's own. Register {path} as something else.")
        given, offered = _GIVEN[self.kind].get(name), _offers()[self.kind].get(name)
        if given is not None and given.origin.path != path:
            raise PluginError(f"{taken}{given.origin.path}. Register {path} as something else.")
        if offered is not None and path not in {point.value for point in offered.points}:
            raise PluginError(
                f"{taken}that of the package {_package(offered.points[0])}. Register {path} "
                "as something else."
            )


def _at(path: str) -> Any:
    module, _, name = path.partition(":")
    return attrgetter(name)(import_module(module))


def pickled_plugins() -> bytes | None:
    """Return what calls added in this process, for another one; None where there is nothing.

    Classes of modules travel by their import path, those of a notebook or script by value.

    Raises:
        PluginError: a plug-in cannot be carried.
    """
    given = {kind: plugins for kind, plugins in _GIVEN.items() if plugins}
    if not given:
        return None
    import cloudpickle

    for kind, plugins in given.items():
        for name, plugin in plugins.items():
            try:
                cloudpickle.dumps(plugin)
            except Exception as error:  # whatever the class holds
                raise PluginError(
                    f"{kind} {name!r} ({plugin.origin.path}) cannot be sent to worker processes "
                    f"({reason_of(error)}): put it into a module that can be imported, or give "
                    "workers=1."
                ) from error
    return cast(bytes, cloudpickle.dumps(given))


def take_over(load: bytes) -> None:
    """Add what another process carried here, which checked it.

    Raises:
        PluginError: a plug-in's module cannot be imported here.
    """
    import pickle

    try:
        given = pickle.loads(load)
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"a worker cannot import a registered plug-in ({reason_of(error)}): put it into a "
            "module on PYTHONPATH, or give workers=1."
        ) from error
    for kind, plugins in given.items():
        for name, plugin in plugins.items():
            _GIVEN[kind].setdefault(name, _Given(plugin.value, plugin.origin, checked=True))
