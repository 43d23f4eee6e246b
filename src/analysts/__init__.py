"""From interviews to one answer."""
