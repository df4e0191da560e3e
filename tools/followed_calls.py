"""How much of probekit one `extract`, `sweep`, `finetune` and `report` enter.

The model is MiniLM-L6, which `probekit demo` uses; the text 40 sentences of each split of demo-ner.
One `dwatt` is trained from the cache, one `last` with LoRA, and the page is of both records.
"""

import inspect
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType


def entered(call: Callable[[], object], package: Path) -> set[tuple[str, str]]:
    """Return file and qualified name of every named function of ``package`` that a call enters.

    Threads that the call starts are followed, other processes are not. Bodies of modules and
    classes are no functions; lambdas and comprehensions have no name.
    """
    codes: dict[int, CodeType] = {}  # by identity: to compare code takes long

    def hook(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes[id(frame.f_code)] = frame.f_code

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {
        (code.co_filename, code.co_qualname)
        for code in codes.values()
        if code.co_flags & inspect.CO_OPTIMIZED
        and not code.co_name.startswith("<")
        and Path(code.co_filename).is_relative_to(package)
    }


def walks(root: Path) -> Iterator[tuple[str, str]]:
    """Yield what is entered of the probekit in the checkout ``root``, as rows of a table.

    All its modules are imported before: to load one is no part of a call.
    """
    sys.path.insert(0, str(root))
    package = root / "probekit"
    for path in sorted(package.rglob("*.py")):
        if path.stem not in ("__init__", "__main__"):
            import_module(".".join(path.relative_to(root).with_suffix("").parts))
    probekit = import_module("probekit")
    model = str(import_module("probekit.backbone").demo_model_folder())
    with tempfile.TemporaryDirectory() as folder:
        options = probekit.ExtractOptions(limit=40)
        asked = partial(probekit.TrainSpec, model=model, task="demo-ner")
        plans = {
            "sweep": [asked(head="dwatt")],
            "finetune": [asked(head="last", method="lora", epochs=1)],
        }
        here = probekit.Location(cache=folder)
        records = Path(folder, "records.jsonl")
        calls = {
            "extract": partial(probekit.extract, model, "demo-ner", options=options, cache=folder),
            **{
                name: partial(probekit.sweep, plan, out=records, location=here)
                for name, plan in plans.items()
            },
            "report": lambda: probekit.write_report(
                probekit.load_records(records), Path(folder, "page.html")
            ),
        }
        for name, call in calls.items():
            found = entered(call, package)
            files = {file for file, _ in found}
            yield f"files / named functions entered by one `{name}`", f"{len(files)} / {len(found)}"
