"""The machine: memory, cores, devices, interrupts."""
