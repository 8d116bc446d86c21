"""What every room shares; imports nothing else of the project."""
