"""Those who answer."""
