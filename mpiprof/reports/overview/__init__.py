"""Contents of the overview, for the dashboard, the HTML report and notebooks alike.

The modules compute texts, numbers and pictures; a page only lays them out.
"""
