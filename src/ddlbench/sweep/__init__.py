"""Measuring all points of a study: sessions, rounds of repetitions, links that are watched, attempts."""
