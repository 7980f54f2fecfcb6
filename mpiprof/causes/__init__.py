"""Causes of lost time: one file for each cause, with detection, evidence, sentence and advice.

Single events and structure are facts of a run: they are read from its account, and need no test of
significance.
"""
