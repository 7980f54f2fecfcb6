"""The verbs, one file each; a file's docstring is the verb's help."""
