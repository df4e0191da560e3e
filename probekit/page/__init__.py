"""The page of a report: records as one HTML file that needs no server and no Python."""
