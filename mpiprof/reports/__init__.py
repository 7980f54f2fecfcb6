"""Reports: text, JSON, HTML and Markdown, and the sentences in them.

Numbers come from `metrics` and `diagnosis`. This package turns them into words, tables and charts.
"""
