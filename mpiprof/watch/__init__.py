"""Observes a running job for hangs, from outside its processes."""
