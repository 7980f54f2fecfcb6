"""Traces in other formats: Perfetto, OTF2, Parquet, CSV, Caliper, the packed trace, and its cache.

Each module writes one format from the tables of a trace. `otf2` also reads archives of Score-P.
`cached_trace` stores derived tables in files for reports and dashboard pages.
"""
