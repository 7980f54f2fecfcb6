"""Beside a running job: who watches it for hangs, from outside its processes."""
