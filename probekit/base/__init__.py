"""What every room may use: names, layers, choices; the machine, numbers, messages."""
