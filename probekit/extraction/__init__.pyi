from .dry_run import Forecast as Forecast
from .dry_run import break_even as break_even
from .dry_run import forecast as forecast
from .dry_run import training_split as training_split
from .extract_target import ExtractTarget as ExtractTarget
from .extraction_call import extract as extract
from .extraction_call import open_session as open_session
from .request_options import ExtractOptions as ExtractOptions
