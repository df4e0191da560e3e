"""What is said while work goes on: progress, quantities, reasons, and things said once."""
