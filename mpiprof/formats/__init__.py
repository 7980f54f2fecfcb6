"""Traces in other formats: Perfetto, OTF2, Parquet, CSV, Caliper, and the packed trace.

Each module writes one format from the tables of a trace. `otf2` also reads archives of Score-P.
"""
