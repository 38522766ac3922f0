"""KCL's rows in DynamoDB. Imports `settings`."""
