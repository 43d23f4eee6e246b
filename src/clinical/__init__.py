"""What is known about symptoms, without any player."""
