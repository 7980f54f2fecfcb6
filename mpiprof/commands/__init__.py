"""The verbs, one file each; the docstring of a file is the help of its verb."""
