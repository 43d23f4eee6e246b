"""The roles, the loop and the batch."""
