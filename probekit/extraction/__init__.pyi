from .dry_run import Forecast, break_even, forecast, training_split
from .extract_target import ExtractTarget
from .extraction_call import extract, open_session
from .request_options import ExtractOptions

__all__ = [
    "ExtractOptions",
    "ExtractTarget",
    "Forecast",
    "break_even",
    "extract",
    "forecast",
    "open_session",
    "training_split",
]
