from .import_options import ImportOptions as ImportOptions
from .import_session import import_states as import_states
