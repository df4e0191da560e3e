"""What every room may use: names, layers, choices, notices; the machine, numbers."""
