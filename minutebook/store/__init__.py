"""Object stores: their ports, S3 and a directory behind them, retries, and the commit of a segment."""
