"""Studies of the papers, their harness, the emulated cluster, and the cost of the tool.

A study runs on the ranks of a job, on the emulated cluster or in the simulator, and writes a table
and plots beside the paper's numbers.
"""
