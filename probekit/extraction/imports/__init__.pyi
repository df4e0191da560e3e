from .import_session import import_states as import_states
