"""What files of the configuration are: YAML as plain data, checked against schemas, with messages for people."""
