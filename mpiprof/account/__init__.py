"""The account of a run: the time of every thread, as a sequence of segments."""
