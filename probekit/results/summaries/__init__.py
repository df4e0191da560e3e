"""Records summed up: groups over seeds, intervals, wording."""
