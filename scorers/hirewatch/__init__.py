"""HireWatch: which questions were picked, read without a judge."""
