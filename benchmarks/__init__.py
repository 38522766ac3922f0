"""Speed and size, measured beside a peer in the same run and reported as ratios; never timed assertions."""
