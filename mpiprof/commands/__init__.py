"""The verbs of the command line, one file per verb; the module's docstring is the verb's help."""
