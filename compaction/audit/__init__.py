"""What a day's objects prove. Imports `job` and what lies below it; imported by `rewrite` and `command`."""
