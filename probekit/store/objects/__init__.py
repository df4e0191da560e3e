"""Roots at URLs: object stores in place of folders, through ``obstore``."""
