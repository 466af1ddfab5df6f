"""The recommender: what somebody asks and the answer, for the command line, over HTTP, and as a page."""
