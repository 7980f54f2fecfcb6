"""A local web server that shows traces in a browser; `view` starts it."""
