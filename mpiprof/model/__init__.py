"""Models of collective algorithms: the schedules of the catalogue, proved, simulated and drawn."""
