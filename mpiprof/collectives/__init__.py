"""Models of collective algorithms: schedules of the catalogue, proved, simulated and drawn."""
