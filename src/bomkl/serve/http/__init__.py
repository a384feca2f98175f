"""The service over HTTP: routes, limits, tokens, traffic and the live page."""
