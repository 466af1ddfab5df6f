"""The supervisor of a session: rounds of repetitions, when they are enough, links that are watched, attempts."""
