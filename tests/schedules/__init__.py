"""Tests of schedules: the messages of each algorithm."""
