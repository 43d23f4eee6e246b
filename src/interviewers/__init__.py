"""Those who ask."""
