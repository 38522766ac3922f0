"""KCL's rows in DynamoDB: leases, worker reports, the leader lock. Imports `settings`."""
