"""Where a plug-in of third parties is from: what records and saved heads keep of it."""

from dataclasses import dataclass
from typing import Any, Self

from probekit.base.source_hash import import_path, source_hash
from probekit.errors import PluginError


@dataclass(frozen=True, kw_only=True)
class PluginOrigin:
    """Where a plug-in is from, and which version of it that is: what records and saved heads keep.

    Attributes:
        path: ``module:name`` of the class or function.
        code: what tells its code from an earlier or later one: ``version 2`` as it was registered,
            else the hash of its source.
        package: the package that offers it, if one does, with its version: ``probekit-mine 0.1.0``.
    """

    path: str
    code: str
    package: str = ""

    @classmethod
    def of(cls, value: Any, *, version: str | None = None, package: str = "") -> Self:
        """Return the origin of a plug-in.

        Raises:
            PluginError: its source cannot be found, and nothing else tells its version.
        """
        code = f"version {version}" if version is not None else source_hash(value)
        if code is None and not package:
            raise PluginError(
                f"{import_path(value)}: its source cannot be found, which tells a changed class "
                'from the one of an earlier run; say its version when you register it: version="1".'
            )
        return cls(path=import_path(value), code=code or "", package=package)

    def to_json(self) -> dict[str, str]:
        """Return what there is, as text by name."""
        return {name: text for name, text in vars(self).items() if text}
