"""All sentences of the reports, one function for each, by subject.

Numbers come from `account` and `causes`. A cause brings its clause and its advice along. `captions`
has the captions of pictures and the legends of tables, of reports and of pages. `grep` for a few
words of a sentence leads to its function.
"""
