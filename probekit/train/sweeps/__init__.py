"""Sweeps: many training runs that share their reads, recorded as they finish, resumable."""
