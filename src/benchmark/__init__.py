"""What the machinery costs and how well it fills a server, as ratios from one run."""
