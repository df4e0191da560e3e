from .import_call import import_states as import_states
from .import_options import ImportOptions as ImportOptions
