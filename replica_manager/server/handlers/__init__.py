"""One module per API, or per few that belong together: a request in, its response out."""
