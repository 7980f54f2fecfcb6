"""Figures: functions from a DataFrame to a Plotly figure, without server or trace."""
