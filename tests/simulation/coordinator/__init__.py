"""KCL's coordinator with its own stalls, under the product's watch of the leases: is every shard read again?"""
