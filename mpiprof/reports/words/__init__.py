"""All sentences of the reports, one function for each, by subject.

Numbers come from `metrics`, `account`, `causes` and `diagnosis`. A cause brings its clause and its
advice along. `grep` for a few words of a sentence leads to its function.
"""
