"""What each request passes before a route answers it: observation, guard, and answers that were given before."""
