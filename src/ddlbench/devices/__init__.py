"""What the steps of a training take on devices that are not here."""
