"""The contracts of plug-ins as tests: what probekit runs on its own, for third parties on theirs.

``check_head(MyHead)`` runs all of them, and raises `PluginError` with the promise that is broken;
``HEAD_CHECKS`` and the like are the single checks, for ``pytest.mark.parametrize``. The names load
on first use: a plug-in of one kind imports only what its checks need.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
