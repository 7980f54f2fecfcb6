"""Reports: text, JSON, HTML and Markdown; all sentences in them are in `words`.

Numbers come from `metrics` and `diagnosis`. This package turns them into words, tables and charts.
"""
