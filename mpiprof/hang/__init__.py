"""Hang detection: rank states, wait-for graph, verdict, and the agent beside a running job."""
