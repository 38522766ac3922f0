"""What the processors meet, simulated: S3, DynamoDB, Kinesis, KCL and its lease table; imports `world` alone."""
