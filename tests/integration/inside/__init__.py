"""What tests do inside a sandbox: each public function is run in one of its own and gives back plain data."""
