"""The driver of a run: what the store lacks of its points, where these are placed, and the session that is started."""
