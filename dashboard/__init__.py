"""Local web server that shows traces in a browser; `view` starts the server."""
