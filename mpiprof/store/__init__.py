"""Derived tables of a trace, cached in files for reports and dashboard pages."""
